# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The numbers that a text names, by value and not by spelling.

  1,234   1234   1.234,0   1'234   １２３４   一千二百三十四      -> 1234

What two conventions read differently is read in the English way: "1,234" is
a thousand, "1.234" a little more than one. A comma is a decimal one where no
thousands could follow it: "1,5". Ordinary spaces never join digits.

Digits glued to letters count ("B2B" names 2, "7-Eleven" 7), so that names
which differ in a digit differ in their numbers. English number words and
Roman numerals are no numbers: "one" is said of too much.
"""

import decimal
import functools
import re
import unicodedata
from decimal import Decimal

# --- digits as the West writes them ------------------------------------------

# No-break, figure, punctuation, thin and narrow no-break space.
_SPACES = '[\u00a0\u2007\u2008\u2009\u202f]'
_QUOTES = "['’]"
_HEAD, _THREE = '[1-9][0-9]{0,2}', '[0-9]{3}'
_EDGE = r"[.,'’]"

# A point is the decimal mark; every other mark parts thousands.
_POINT = '|'.join(
  (
    rf'{_HEAD}(?:,{_THREE})+(?:\.[0-9]+)?',
    rf'{_HEAD}(?:{_QUOTES}{_THREE})+(?:\.[0-9]+)?',
    rf'{_HEAD}(?:{_SPACES}{_THREE})+(?:\.[0-9]+)?',
    rf'[1-9][0-9]?(?:,[0-9]{{2}})+,{_THREE}(?:\.[0-9]+)?',  # 12,34,567
    r'[0-9]+\.[0-9]+',
  )
)
# A comma is. "1990,1995" and "1,2,3" are lists.
_COMMA = '|'.join(
  (
    rf'{_HEAD}(?:\.{_THREE})+,[0-9]+',
    rf'{_HEAD}(?:\.{_THREE}){{2,}}',
    rf'{_HEAD}(?:{_QUOTES}{_THREE})+,[0-9]+',
    rf'{_HEAD}(?:{_SPACES}{_THREE})+,[0-9]+',
    r'0,[0-9]+',
    r'[0-9]{1,3},(?:[0-9]{4,}|[0-9]{1,2})',
    r'[0-9]{4,},[0-9]{1,2}',
  )
)
# Whole or not at all: of "12.05.1990" nothing is a fraction.
_WHOLE = f'(?<![0-9]{_EDGE})(?:%s)(?!{_EDGE}?[0-9])'
_DIGITS = f'(?:{_WHOLE % f"{_POINT}|{_COMMA}"}|[0-9]+)'
_BY_COMMA = re.compile(_COMMA)

_SCALES = {
  'hundred': 2,
  'thousand': 3,
  'million': 6,
  'billion': 9,
  'bn': 9,
  'trillion': 12,
  'tn': 12,
}
_SCALE = re.compile('|'.join(_SCALES))

# --- and as China and Japan do -----------------------------------------------

_NUMERALS = {
  char: value
  for value, chars in enumerate(
    (
      *('〇零', '一壹', '二两兩贰貳', '三叁參', '四肆'),
      *('五伍', '六陆陸', '七柒', '八捌', '九玖'),
    )
  )
  for char in chars
}
_UNITS = {
  char: power
  for power, chars in {
    1: '十拾',
    2: '百佰',
    3: '千仟',
    4: '万萬',
    8: '亿億',
    12: '兆',
  }.items()
  for char in chars
}
_CONTRACTED = {'廿': '二十', '卅': '三十'}
_ONE, _UNIT = f'[{"".join(_NUMERALS)}]', f'[{"".join(_UNITS)}]'
_ANY = f'[{"".join((*_NUMERALS, *_UNITS, *_CONTRACTED))}]'
# A lone numeral is one before these, after 第 and in 百分之 only: 三菱 and 统一
# name no number.
_COUNTERS = tuple(
  '年月日号號世人个個岁歲次位名届屆期章卷页頁米元天周週層层楼级級'
)
_ORDINAL = ('第', '百分之')
_DECADE = '年代'
# Beyond so many units a run is its own name: no quantity is written like this.
_MOST_UNITS = 40

# --- all of them -------------------------------------------------------------

_NUMBER = re.compile(
  # A minus stands where a word begins; within a range it is a dash.
  r'(?P<minus>(?<![^\s(\[{"“‘$€£¥=<>~:])[-–][$€£¥]?)?'
  rf'(?:(?P<mixed>{_DIGITS}(?:{_UNIT}(?:{_ONE}|{_DIGITS})?)+)'
  rf'|(?P<digits>{_DIGITS}|(?<![\w.])\.[0-9]+)'
  rf'(?P<scale>(?:[\s-]?(?i:{_SCALE.pattern})(?i:s)?\b)*)'
  rf"(?P<decade>['’]?s\b|{_DECADE})?"
  rf'|(?P<cjk>{_ANY}+(?:[点點]{_ONE}+(?!{_UNIT}))?))'
)
_TOKEN = re.compile(f'{_DIGITS}|{_ANY}')

# 1990-95, 1998/99; neither 2003-11-05 nor 1980-90s.
_SHORT_YEAR = re.compile(
  r'(?<![\w.,/–-])([12][0-9])([0-9]{2})([-–/])([0-9]{2})(?![\w/–-]|[.,][0-9])'
)
_FULL_WIDTH = re.compile('(?<=[０-９])([．，])(?=[０-９])')
_MARKS = {
  '‐': '-',
  '\u2011': '-',
  '−': '-',
  '－': '-',
  '‒': '–',
  '٫': '.',
  '٬': "'",
}


@functools.lru_cache(maxsize=1 << 14)
def numbers_in(text: str) -> frozenset[Decimal | str]:
  """The values that a text names; spelling and order do not matter.

    12 May 1990            12, 1990      1990-1995, 1990–95    1990, 1995
    -5%, −5                -5            1.2 million, 120万    1200000
    the 1st of 1,234,567   1, 1234567    二〇二四年, 2024年      2024
    the 1990s, 1990年代    '1990s', a decade and no year

  Args:
    text: anything. No text raises.

  Returns:
    Exact decimals, and strings for what is no quantity: decades, and runs of
    East Asian numerals that no one could have meant as one.
  """
  text = _plain(text)
  text = _SHORT_YEAR.sub(_full_range, text)
  return frozenset(
    value
    for match in _NUMBER.finditer(text)
    if (value := _value(match, text)) is not None
  )


def _plain(text: str) -> str:
  """Digits of all scripts as ASCII, marks that look alike as one."""
  if text.isascii():
    return text
  text = _FULL_WIDTH.sub(lambda m: '.' if m[1] == '．' else ',', text)
  return ''.join(map(_plain_char, text))


@functools.lru_cache(maxsize=1 << 12)
def _plain_char(char: str) -> str:
  return _MARKS.get(char) or str(unicodedata.decimal(char, char))


def _full_range(match: re.Match) -> str:
  """1990-95 -> 1990-1995; 2003-02 stays: a month, or who knows."""
  century, first, dash, second = match.groups()
  century = century if second > first else ''
  return f'{match[1]}{first}{dash}{century}{second}'


def _value(match: re.Match, text: str) -> Decimal | str | None:
  if match['cjk']:
    value = _cjk(match, text)
  elif match['mixed']:
    value = _composed(match['mixed'])
  elif match['decade'] and re.fullmatch('(?:[0-9]{2})?[0-9]0', match['digits']):
    return f'{match["digits"]}s'
  else:
    scales = _SCALE.findall(match['scale'].lower())
    value = _shifted(
      _decimal(match['digits']), sum(_SCALES[scale] for scale in scales)
    )
  if match['minus'] and isinstance(value, Decimal):
    return value.copy_negate()
  return value


def _decimal(digits: str) -> Decimal:
  if _BY_COMMA.fullmatch(digits):
    return Decimal(re.sub('[^0-9,]', '', digits).replace(',', '.'))
  return Decimal(re.sub(r'[^0-9.]', '', digits))


def _shifted(value: Decimal, power: int) -> Decimal:
  """value * 10^power, exact however long the value is."""
  sign, digits, exponent = value.as_tuple()
  return Decimal((sign, digits, exponent + power)) if power else value


def _cjk(match: re.Match, text: str) -> Decimal | str | None:
  """The value of a run of numerals, None where it is part of a word."""
  run, start, stop = match['cjk'], match.start('cjk'), match.end()
  if (
    len(run) == 1
    and not text.startswith(_COUNTERS, stop)
    and not text.endswith(_ORDINAL, 0, start)
  ):
    return None
  whole, _, fraction = run.replace('點', '点').partition('点')
  value = _composed(whole)
  if fraction and isinstance(value, Decimal):
    value = Decimal(f'{value:f}.{_positional(fraction)}')
  if text.startswith(_DECADE, stop) and isinstance(value, Decimal):
    return f'{value:f}s'
  return value


def _positional(run: str) -> str:
  return ''.join(str(_NUMERALS[char]) for char in run)


def _composed(run: str) -> Decimal | str:
  """A run read by its units; by position where it has none.

  三百零五 = 3 * 100 + 5    1亿2000万 = 1 * 10^8 + 2000 * 10^4
  三万五   = 35000, as it is said; with 零 it would be 30005
  """
  for char, meant in _CONTRACTED.items():
    run = run.replace(char, meant)
  units = sum(char in _UNITS for char in run)
  if not units:
    return Decimal(_positional(run))
  if units > _MOST_UNITS:
    return run
  tokens = _TOKEN.findall(run)
  # Wide enough for every digit: nothing is rounded.
  with decimal.localcontext() as context:
    context.prec = len(run) + _MOST_UNITS * max(_UNITS.values())
    return _by_units(tokens)


def _by_units(tokens: list[str]) -> Decimal:
  # total: closed by 万, 亿 or 兆; section: below the next of them; current:
  # digits that wait for a unit.
  total, section, current, largest = Decimal(0), Decimal(0), None, 0
  for token in tokens:
    if token not in _UNITS:
      if token not in _NUMERALS:
        current = _decimal(token)
      else:
        current = (current or 0) * 10 + Decimal(_NUMERALS[token])
      continue
    power = _UNITS[token]
    if power < 4:
      section += _shifted(Decimal(1) if current is None else current, power)
    else:
      section += current or 0
      if current is None and not section and not total:
        section = Decimal(1)
      if power > largest or not section:
        total, largest = _shifted(total + section, power), power
      else:
        total += _shifted(section, power)
      section = Decimal(0)
    current = None
  if current and len(tokens) > 1 and tokens[-1] in _NUMERALS:
    said = _UNITS.get(tokens[-2], 1) - 1
    current = _shifted(current, said)
  return total + section + (current or 0)
