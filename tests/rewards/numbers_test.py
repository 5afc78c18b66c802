# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Numbers are compared by value, however they are written."""

from decimal import Decimal

import hypothesis
import hypothesis.strategies as st
import pytest

from searchrl_jax.rewards.numbers import numbers_in

NO_BREAK, THIN, NARROW = '\u00a0', '\u2009', '\u202f'
DIGITS = {
  'full-width': '０１２３４５６７８９',
  'arabic': '٠١٢٣٤٥٦٧٨٩',
  'devanagari': '०१२३४५६७८९',
}


def values(*numbers):
  return frozenset(
    one if isinstance(one, str) and one.endswith('s') else Decimal(one)
    for one in numbers
  )


@pytest.mark.parametrize(
  ('text', 'expected'),
  [
    ('no number at all', ()),
    ('', ()),
    ('1,234', [1234]),
    ('1234', [1234]),
    ('1.234,0', [1234]),
    ('1,234.5', ['1234.5']),
    ('1.234,5', ['1234.5']),
    ('1,234,567', [1234567]),
    ('1.234.567', [1234567]),
    ('1.234.567,89', ['1234567.89']),
    ('1,5', ['1.5']),
    ('3,1416', ['3.1416']),
    ('0,125', ['0.125']),  # no thousands begin with 0
    ('1.50', ['1.5']),
    # What is ambiguous is English.
    ('1.234', ['1.234']),
    ("1'234.50", ['1234.5']),
    ('1’234', [1234]),
    (f'1{NO_BREAK}234', [1234]),
    (f'12{THIN}345{THIN}678', [12345678]),
    (f'1{NARROW}234,5', ['1234.5']),
    # Ordinary spaces join nothing, and no-break ones only groups of three.
    ('1 234', [1, 234]),
    (f'1990{NO_BREAK}100', [1990, 100]),
    (f'12{NO_BREAK}34', [12, 34]),
    ('12,34,567', [1234567]),
    # Lists, dates, versions and times: nothing of them is a fraction.
    ('1,2,3', [1, 2, 3]),
    ('1990,1995', [1990, 1995]),
    ('1,234,56', [1, 234, 56]),
    ('12.05.1990', [12, 5, 1990]),
    ('2003-11-05', [2003, 11, 5]),
    ('version 1.2.3 at 12:30', [1, 2, 3, 12, 30]),
    ('in 1990. 5 of them', [1990, 5]),
    ('.5', ['0.5']),
  ],
)
def test_thousands_and_fractions(text, expected):
  assert numbers_in(text) == values(*expected)


@pytest.mark.parametrize(
  ('text', 'expected'),
  [
    ('1990-1995', [1990, 1995]),
    ('1990–1995', [1990, 1995]),
    ('1990–95', [1990, 1995]),  # neither 95 nor -95
    ('1990-95', [1990, 1995]),
    ('1998/99', [1998, 1999]),
    ('2003-02', [2003, 2]),  # a month
    ('1980-90s', [1980, '90s']),
    ('pages 3-5', [3, 5]),
    ('-5', [-5]),
    ('−5', [-5]),
    ('about (-5)', [-5]),
    ('-$5', [-5]),
    ('5−3', [5, 3]),
    ('- 5', [5]),
    ('COVID-19', [19]),
    ('the 1990s', ['1990s']),
    ("the 1990's", ['1990s']),
    ('the 90s', ['90s']),
    ('the 1990 census', [1990]),
    ('747s', [747]),
    ('1st, 22nd, 3rd', [1, 22, 3]),
    ('5%', [5]),
    ('12 May 1990', [12, 1990]),
    ('May 12, 1990', [12, 1990]),
    ('1.2 million', [1200000]),
    ('3 thousand', [3000]),
    ('2bn', [2000000000]),
    ('5 Hundred Thousand', [500000]),
    ('1,2 millions', [1200000]),
    ('5 mills', [5]),
    # Digits glued to letters count, so that R2 is not R3.
    ('B2B', [2]),
    ('R2-D2', [2]),
    ('7-Eleven', [7]),
  ],
)
def test_ranges_signs_decades_and_scales(text, expected):
  assert numbers_in(text) == values(*expected)


@pytest.mark.parametrize(
  ('text', 'expected'),
  [
    ('一九九〇', [1990]),
    ('二〇二四年', [2024]),
    ('二十三', [23]),
    ('十', ()),  # alone, it may be part of a word
    ('十月', [10]),
    ('三百零五', [305]),
    ('三万零五', [30005]),
    ('三万五', [35000]),
    ('一千二百三十四', [1234]),
    ('壹仟贰佰', [1200]),
    ('廿三', [23]),
    ('十二万三千亿', [12_3000 * 10**8]),
    ('1万', [10000]),
    ('1.2亿', [120000000]),
    ('1亿2000万', [120000000]),
    ('120万', [1200000]),
    ('三点五', ['3.5']),
    ('十九世纪', [19]),
    ('三世纪', [3]),
    ('九十年代', ['90s']),
    ('1990年代', ['1990s']),
    ('第三', [3]),
    ('三个人', [3]),
    ('百分之五', [5]),
    ('三菱', ()),
    ('统一', ()),
    ('红十字', ()),
    ('万科', ()),
  ],
)
def test_east_asian_numerals(text, expected):
  assert numbers_in(text) == values(*expected)


def test_the_same_value_in_many_spellings_is_one_number():
  spellings = '1,234 1234 1.234,0 1234.00 １２３４ １，２３４ １２３４．０ ١٢٣٤'
  assert numbers_in(f'{spellings} 一千二百三十四') == values(1234)
  assert numbers_in('1990s') == numbers_in('1990年代') != numbers_in('1990')


def test_very_long_numbers_are_exact():
  # int() refuses more than 4300 digits and arithmetic rounds to 28.
  long, other = '7' * 10_000, '7' * 9_999 + '8'
  assert numbers_in(long) == {Decimal(long)} != numbers_in(other)
  assert numbers_in(f'{long} million') == {Decimal(long + '000000')}
  assert numbers_in(f'{long}万') == {Decimal(long + '0000')}
  assert numbers_in('一' * 10_000) == {Decimal('1' * 10_000)}
  # Such a run is no quantity: it stands for itself.
  assert numbers_in('万' * 1000) == {'万' * 1000}
  assert numbers_in('1' + ' million' * 1000) == {Decimal('1e6000')}


@hypothesis.settings(deadline=None)
@hypothesis.given(text=st.text())
def test_any_text_can_be_read(text):
  hash(numbers_in(text))


ALPHABET = (
  "0123456789.,'’-−–/ \u00a0s%$第一二十百万亿〇点年代世纪millionbn٣２，．"
)


@hypothesis.settings(deadline=None)
@hypothesis.given(text=st.text(ALPHABET))
def test_any_heap_of_digits_and_marks_can_be_read(text):
  assert all(
    isinstance(one, str) or one.is_finite() for one in numbers_in(text)
  )


@hypothesis.given(number=st.integers())
def test_the_spelling_of_an_integer_does_not_matter(number):
  expected = {Decimal(number)}
  assert numbers_in(str(number)) == expected
  assert numbers_in(f'{number:,}') == expected
  for mark in ("'", NO_BREAK, THIN, NARROW):
    assert numbers_in(f'{number:,}'.replace(',', mark)) == expected
  for digits in DIGITS.values():
    table = str.maketrans('0123456789', digits)
    assert numbers_in(str(number).translate(table)) == expected


@hypothesis.given(
  number=st.integers(1000, 10**9), cents=st.integers(0, 99).map('{:02}'.format)
)
def test_both_conventions_agree_where_both_marks_stand(number, cents):
  english = f'{number:,}.{cents}'
  german = english.translate(str.maketrans(',.', '.,'))
  assert numbers_in(english) == {Decimal(f'{number}.{cents}')}
  assert numbers_in(german) == numbers_in(english)
