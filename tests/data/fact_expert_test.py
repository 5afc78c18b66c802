# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The expert of FactAgent: right without noise, noisy only in decisions."""

import collections
import functools

import pytest

from searchrl_jax import tokenizer, types
from searchrl_jax.data import drills, world
from searchrl_jax.data.fact_expert import FactExpert, FactPlanner
from searchrl_jax.data.questions import questions
from searchrl_jax.environments import fact_wording, factagent
from searchrl_jax.retrieval import resolver
from searchrl_jax.rollout import engine, policy

Kind, Status = types.Kind, types.Status
BOTH = pytest.mark.parametrize('rendering', ['words', 'natural'])
MAX_FACTS = 6


@functools.lru_cache
def make(rendering='words', seed=31):
  return world.make_world(world.WorldConfig(rendering=rendering), seed)


@functools.lru_cache
def engine_of(rendering):
  """A search engine over the world of a rendering."""
  return resolver.SearchResolver(lambda name: make(rendering).documents)


def spoken(rendering):
  """The wording and the tokenizer that a world is played in."""
  if rendering == 'natural':
    return fact_wording.NATURAL, tokenizer.ByteTokenizer()
  said = fact_wording.words_of(fact_wording.WORDS, MAX_FACTS)
  words = (*said, *world.vocabulary(make(rendering).config))
  known = tokenizer.WordTokenizer(tuple(dict.fromkeys(words)))
  return fact_wording.WORDS, known


def roll(expert, asked, rendering='words', resolve=None, wording=None):
  """Trajectories of an expert, played through the tool loop."""
  usual, speaker = spoken(rendering)
  environment = factagent.FactAgent(
    wording or usual,
    max_facts=MAX_FACTS,
    topk=1,
    max_observation=400,
    shorten=functools.partial(tokenizer.shorten, speaker),
  )
  groups = engine.rollout(
    policy.ScriptPolicy(expert, environment, speaker),
    environment,
    asked,
    resolve or engine_of(rendering),
    speaker,
    group=1,
    limits=engine.Limits(1000, 5000, 5000),
  )
  return [played for (played,) in groups]


def taken(action, documents=()):
  """The turn that an action becomes when it brings documents."""
  evidence = (types.Evidence('external', '', tuple(documents)),)
  return types.Turn(action, '', '', evidence, types.Span(0, 0, 0), 0.0)


def plain(**changes):
  return FactExpert(0, **({'superfluous': 0.0, 'early': 0.0} | changes))


def said(played):
  return [turn.action for turn in played.turns]


def search(query):
  return types.Action(Kind.SEARCH, {'query': query})


def store(hop):
  triple = [hop.subject, hop.relation, hop.object]
  return types.Action(Kind.ASSERT, {'triples': [triple]})


def answer(text):
  return types.Action(Kind.ANSWER, {'answer': text})


def full(hop):
  return search(f'{hop.subject} {hop.relation}')


# --- without noise -----------------------------------------------------------


@BOTH
def test_without_noise_it_walks_the_chain_within_eight_rounds(rendering):
  asked = questions(make(rendering), 0, 30)
  for played in roll(plain(), asked, rendering):
    hops = played.question.hops
    assert played.status == Status.ANSWERED
    assert played.answer == played.question.answers[0]
    expected = [one for hop in hops for one in (full(hop), store(hop))]
    assert said(played) == [*expected, answer(hops[-1].object)]
    assert len(played.turns) <= 8
    # What is asserted stood in the search result before.
    for before, turn in zip(played.turns, played.turns[1:], strict=False):
      if turn.action.kind == Kind.ASSERT:
        ((_, _, value),) = turn.action.arguments['triples']
        assert value in before.reply


def test_a_turn_of_words_is_short():
  _, speaker = spoken('words')
  for played in roll(FactExpert(1), questions(make(), 1, 60)):
    for turn, row in zip(played.turns, played.rows, strict=True):
      assert len(speaker.encode(turn.text)) <= 7
      assert len(row.tokens) <= 60


def test_what_follows_depends_on_the_prompt_alone():
  # Noise is a detour: whatever led to a prompt, the decision is the same.
  asked = questions(make(), 2, 40)
  decisions = collections.defaultdict(set)
  met = 0
  for seed in range(4):
    strayed = FactExpert(seed, superfluous=0.5, early=0.2)
    for played in roll(strayed, asked):
      prompts = [played.prompt, *(turn.reply for turn in played.turns[:-1])]
      for i, prompt in enumerate(prompts):
        decided = plain()(played.question, played.turns[:i])
        decisions[prompt].add(repr(decided))
        met += 1
  assert met > 2 * len(decisions)
  assert all(len(decided) == 1 for decided in decisions.values())


def test_an_unrelated_result_is_searched_past_and_a_known_one_used_at_once():
  (question,) = questions(make(), 3, 1, hops=(2,))
  first, second = question.hops
  pages = {d.id: d for d in make().documents}
  page = pages[second.document_id]
  turns = [taken(search('x'), [page])]
  assert plain()(question, turns) == full(first)
  # The prompt shows that page still: no search is needed for it.
  assert plain()(question, [*turns, taken(store(first))]) == store(second)


def test_after_a_miss_it_asks_for_the_name_alone_then_in_full_again():
  (question,) = questions(make(), 8, 1, hops=(1,))
  (played,) = roll(plain(), [question], resolve=drills.nothing_found)
  (hop,) = question.hops
  name = search(hop.subject)
  asked = [full(hop), name, full(hop), name, full(hop), name, full(hop)]
  # Nothing was stored, and nothing is made up.
  assert said(played) == [*asked, answer(hop.subject)]


def test_other_turns_than_asserts_store_nothing():
  (question,) = questions(make(), 8, 1, hops=(1,))
  hop = question.hops[0]
  page = {d.id: d for d in make().documents}[hop.document_id]
  why = {'why': 'x', 'triples': [[hop.subject, hop.relation, hop.object]]}
  turns = [taken(full(hop), [page]), taken(types.Action(Kind.INVALID, why))]
  assert plain()(question, turns) == store(hop)


def test_a_fact_outside_the_chain_is_nothing_to_answer_early():
  (question,) = questions(make(), 8, 1, hops=(2,))
  other = types.Action(Kind.ASSERT, {'triples': [['a', 'b', 'c']]})
  turns = [taken(other)]
  assert plain(early=1.0)(question, turns) == full(question.hops[0])


@pytest.mark.parametrize('text', ['elsewhere', 'cut'])
def test_a_page_that_does_not_tell_the_hop_settles_nothing(text):
  (question,) = questions(make(), 9, 1, hops=(1,))
  hop = question.hops[0]
  page = types.Document(hop.document_id, hop.subject, f'{hop.subject} was')
  if text == 'elsewhere':
    page = types.Document('elsewhere', 'x', f'{hop.object} was here')
  turns = [taken(full(hop), [page])]
  assert plain()(question, turns) == search(hop.subject)


def test_with_its_rounds_spent_it_answers_what_was_asserted_last():
  asked = questions(make(), 10, 4, hops=(3,))
  for rounds, hop in ((4, 0), (5, 1), (6, 1)):
    for played in roll(plain(max_turns=rounds), asked):
      assert played.answer == played.question.hops[hop].object
      assert len(played.turns) == rounds
  (played,) = roll(plain(max_turns=1), asked[:1])
  assert said(played) == [answer(played.question.hops[0].subject)]


def test_it_needs_a_chain():
  question = types.Question(id='q1', text='who?', answers=('x',))
  with pytest.raises(ValueError, match="'q1' has no gold chain"):
    FactExpert(0)(question, ())


# --- noise -------------------------------------------------------------------


def test_superfluous_searches_leave_enough_for_the_chain():
  expert = plain(superfluous=1.0)
  for hops, spare in ((1, 0), (2, 3), (3, 1)):
    # Of 8 rounds, 2 hops + 1 are needed; there is nothing stored to ask for
    # again before the first Assert.
    for played in roll(expert, questions(make(), 5, 12, hops=(hops,))):
      assert played.answer == played.question.answers[0]
      assert len(played.turns) == 2 * hops + 1 + spare
      queries = [a for a in said(played) if a.kind == Kind.SEARCH]
      first = [full(hop) for hop in played.question.hops]
      assert set(map(repr, queries)) == set(map(repr, first))
      assert len(queries) == hops + spare


def test_always_early_it_answers_the_first_object_it_stores():
  expert = plain(early=1.0)
  for played in roll(expert, questions(make(), 6, 12, hops=(2, 3))):
    hop = played.question.hops[0]
    assert said(played) == [full(hop), store(hop), answer(hop.object)]
  (single,) = roll(expert, questions(make(), 6, 1, hops=(1,)))
  assert single.answer == single.question.answers[0]


def test_noise_comes_at_its_rates():
  asked = questions(make(), 7, 300, hops=(2,))
  due = again = stopped = 0
  for played in roll(FactExpert(7), asked):
    first, second = played.question.hops
    queries = [a for a in said(played)[1:] if a.kind == Kind.SEARCH]
    # Eight rounds leave room for three detours: a fourth search is certain.
    due += min(len(queries), 3)
    again += queries.count(full(first))
    stopped += played.answer == first.object
    assert queries.count(full(second)) == (played.answer == second.object)
  # About 340 searches are due: standard error .022.
  assert 300 < due < 420
  assert again / due == pytest.approx(0.2, abs=0.066)
  # 300 hops before the last: standard error .016.
  assert stopped / 300 == pytest.approx(0.08, abs=0.048)


def test_the_same_history_meets_the_same_decision():
  asked = questions(make(), 7, 60)
  one = [said(played) for played in roll(FactExpert(7), asked)]
  back = [said(played) for played in roll(FactExpert(7), asked[::-1])]
  assert one == back[::-1]
  assert one != [said(played) for played in roll(FactExpert(8), asked)]


# --- drills ------------------------------------------------------------------


@BOTH
def test_the_planner_says_what_the_expert_would_say_with_pages(rendering):
  asked = questions(make(rendering), 4, 30)
  expert = FactExpert(4)
  seen = roll(expert, asked, rendering)
  planning = fact_wording.PLANNING if rendering == 'words' else None
  blind = roll(
    FactPlanner(expert),
    asked,
    rendering,
    resolve=drills.nothing_found,
    wording=planning,
  )
  assert [said(played) for played in blind] == [said(one) for one in seen]
  if planning:
    replies = [turn.reply for one in blind for turn in one.turns[:-1]]
    assert all(' brings facts ' in reply for reply in replies)
