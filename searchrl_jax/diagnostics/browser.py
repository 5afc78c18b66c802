# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The browsable sample of trajectories: its data, colours, style and script.

Trajectories are text by a model and text from the web: anything may stand in
them. They enter the page as JSON in which no `<` is left, and the script puts
them on the screen as text nodes, so that no trajectory can act on the page.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import markupsafe
import numpy as np

from searchrl_jax import traces
from searchrl_jax.diagnostics import clusters

# Ends of ColorBrewer's RdBu, which colour-blind readers can tell apart.
RED, WHITE, BLUE = (178, 24, 43), (255, 255, 255), (33, 102, 172)
NO_ADVANTAGE = '#c9cfd6'
TINT = 0.28  # share of the colour behind text, pale enough to read on
LONGEST = 4000  # characters of any one text; 200 trajectories stay a few MB
FACTS = 40  # of a turn


def colour(advantage: float | None, *, scale: float, strength=1.0) -> str:
  """Red where negative, white at 0, blue where positive, grey where unknown.

      -scale       0      +scale
        red  ... white ...  blue

  Args:
    advantage: what a turn received.
    scale: the advantage at which a colour is full; beyond, it stays so.
    strength: share of the colour, the rest being white.
  """
  if advantage is None:
    return NO_ADVANTAGE
  share = strength * min(abs(advantage) / scale, 1.0)
  end = BLUE if advantage > 0 else RED
  mixed = [round(w + share * (e - w)) for w, e in zip(WHITE, end, strict=True)]
  return '#{:02x}{:02x}{:02x}'.format(*mixed)


def scale_of(sample: Sequence[traces.Trace]) -> float:
  """The 95% quantile of |advantage|: outliers must not pale all others."""
  sizes = [abs(a) for trace in sample for a in trace.advantages if a]
  return float(np.quantile(sizes, 0.95)) if sizes else 1.0


def data(sample: Sequence[traces.Trace]) -> markupsafe.Markup:
  """The sample as JSON that is harmless inside a `<script>` element."""
  scale = scale_of(sample)
  text = json.dumps([_trace(trace, scale) for trace in sample])
  # `</script>` and `<!--` end or change a script element even inside strings.
  for character in '<>&':
    text = text.replace(character, f'\\u{ord(character):04x}')
  return markupsafe.Markup(text)


def _trace(trace: traces.Trace, scale: float) -> dict:
  trajectory, question = trace.trajectory, trace.trajectory.question
  return {
    'step': trace.step,
    'phase': trace.phase,
    'id': question.id,
    'rollout': trajectory.rollout,
    'status': str(trajectory.status),
    'outcome': trace.outcome,
    'success': trace.success,
    'valid': trace.valid,
    'sampled': trace.sampled_tokens,
    'given': trace.given_tokens,
    'question': _cut(question.text),
    'answers': [_cut(answer) for answer in question.answers[:20]],
    'hops': [[h.subject, h.relation, h.object] for h in question.hops],
    'prompt': _cut(trajectory.prompt),
    'turns': [_turn(trace, s, scale) for s in range(len(trajectory.turns))],
  }


def _turn(trace: traces.Trace, s: int, scale: float) -> dict:
  turn, advantage = trace.trajectory.turns[s], trace.advantages[s]
  numbers = dict(trace.signals[s])
  if trace.contributions[s] is not None:
    numbers['contribution'] = trace.contributions[s]
  notes = trace.notes[s]
  numbers |= {k: v for k, v in notes.items() if _is_number(v)}
  return {
    'kind': turn.action.kind.name.lower(),
    'text': _cut(turn.text),
    'reply': _cut(turn.reply),
    'clipped': turn.clipped,
    'failures': [_cut(failure) for failure in turn.failures],
    'numbers': numbers,
    'facts': [
      {**fact, 'fact': clusters.words(fact['fact'])}
      for fact in notes.get('facts', ())[:FACTS]
    ],
    'advantage': advantage,
    'band': colour(advantage, scale=scale),
    'tint': colour(advantage, scale=scale, strength=TINT),
  }


def _is_number(value) -> bool:
  """True also of None, which stands where a number was not finite."""
  return value is None or type(value) in (int, float)


def _cut(text: str) -> str:
  if len(text) <= LONGEST:
    return text
  return f'{text[:LONGEST]}… ({len(text) - LONGEST} more characters)'


STYLE = """
.controls { display: flex; flex-wrap: wrap; gap: 8px; align-items: center;
  position: sticky; top: 0; background: #fff; padding: 10px 0; z-index: 1;
  border-bottom: 1px solid #e3e7eb; }
.controls select, .controls button { font: inherit; padding: 4px 9px;
  border: 1px solid #c3cad2; border-radius: 6px; background: #fff; }
.controls button { cursor: pointer; }
.controls button:disabled { color: #b5bcc4; cursor: default; }
#which { flex: 1; min-width: 220px; }
.legend { display: flex; gap: 8px; align-items: center; font-size: 12px;
  color: #5c6672; margin: 10px 0; }
.legend i { width: 190px; height: 12px; border: 1px solid #c3cad2; }
.legend b { width: 12px; height: 12px; display: inline-block; }
.question { font-size: 18px; margin: 14px 0 6px; white-space: pre-wrap;
  overflow-wrap: anywhere; }
.facts { color: #5c6672; margin: 3px 0; overflow-wrap: anywhere; }
.facts strong { color: #1d242c; font-weight: 600; }
.strip { display: flex; gap: 3px; margin: 12px 0; }
.strip span { flex: 1; max-width: 110px; text-align: center; font-size: 12px;
  padding: 3px; border: 1px solid #c3cad2; border-radius: 4px; }
.turn { border: 1px solid #d8dde3; border-left: 12px solid; border-radius: 6px;
  margin: 8px 0; padding: 8px 12px; }
.turn header { display: flex; flex-wrap: wrap; gap: 4px 16px; font-size: 12px;
  color: #39424e; }
.turn header strong { font-size: 13px; }
.turn pre, .prompt pre { font: 13px/1.45 ui-monospace, Menlo, Consolas,
  monospace; white-space: pre-wrap; overflow-wrap: anywhere; margin: 6px 0 0; }
.turn pre.reply { background: rgba(255, 255, 255, .75); color: #5c6672;
  border-radius: 4px; padding: 6px 8px; max-height: 260px; overflow: auto; }
.warn { color: #a1260d; }
.prompt { margin: 12px 0; color: #5c6672; }
"""

CONTROLS = markupsafe.Markup("""
<div class="controls">
  <button id="previous" type="button">&#8249; previous</button>
  <button id="next" type="button">next &#8250;</button>
  <select id="step" aria-label="step"></select>
  <select id="success" aria-label="outcome">
    <option value="">success and failure</option>
    <option value="success">success</option>
    <option value="failure">failure</option>
    <option value="invalid">invalid</option>
  </select>
  <select id="which" aria-label="trajectory"></select>
</div>
""")

SCRIPT = markupsafe.Markup(r"""
'use strict';
const all = JSON.parse(document.getElementById('traces').textContent);
const at = id => document.getElementById(id);
const signed = x => x === null ? 'none' : (x > 0 ? '+' : '') + x.toFixed(3);
const verdict = t => t.valid ? (t.success ? 'success' : 'failure') : 'invalid';
const time = t => t.phase + ' step ' + t.step;
let shown = [], place = 0;

// Text enters the page only here, as a text node.
function add(parent, tag, text, className) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  parent.append(element);
  return element;
}

function fact(parent, name, text) {
  const line = add(parent, 'div', undefined, 'facts');
  add(line, 'span', name + '  ');
  add(line, 'strong', text);
}

function drawTurn(parent, turn, index) {
  const card = add(parent, 'section', undefined, 'turn');
  card.style.background = turn.tint;
  card.style.borderLeftColor = turn.band;
  const head = add(card, 'header');
  add(head, 'strong', 'turn ' + (index + 1) + ' · ' + turn.kind);
  add(head, 'strong', 'advantage ' + signed(turn.advantage));
  for (const [name, value] of Object.entries(turn.numbers))
    add(head, 'span', name.replaceAll('_', ' ') + ' ' +
        (value === null ? 'none' : +value.toFixed(3)));
  if (turn.clipped) add(head, 'span', 'cut by the length limit', 'warn');
  for (const why of turn.failures) add(head, 'span', 'failed: ' + why, 'warn');
  add(card, 'pre', turn.text.trim());
  for (const told of turn.facts)
    fact(card, 'cluster ' + told.cluster + (told.new ? ', new' : ', known') +
        ', utility ' + signed(told.utility), told.fact);
  if (turn.reply.trim()) add(card, 'pre', turn.reply.trim(), 'reply');
}

function draw() {
  const root = at('trajectory'), trace = shown[place];
  root.replaceChildren();
  at('previous').disabled = place <= 0;
  at('next').disabled = place >= shown.length - 1;
  if (!trace) {
    add(root, 'p', 'No trajectory of the sample is like this.', 'facts');
    return;
  }
  at('which').value = place;
  add(root, 'div', trace.question, 'question');
  fact(root, 'gold', trace.answers.join('  |  '));
  if (trace.hops.length)
    fact(root, 'hops', trace.hops.map(
        h => h[0] + ' —' + h[1] + '→ ' + h[2]).join('   ·   '));
  fact(root, 'outcome', (trace.outcome === null ? 'none' :
      +trace.outcome.toFixed(3)) + ' · ' + verdict(trace) + ' · ' +
      trace.status.replaceAll('_', ' ') + ' · ' + trace.sampled +
      ' tokens sampled, ' + trace.given + ' given · question ' + trace.id +
      ', rollout ' + trace.rollout + ' · ' + time(trace));
  const strip = add(root, 'div', undefined, 'strip');
  for (const turn of trace.turns) {
    const cell = add(strip, 'span', turn.kind + ' ' + signed(turn.advantage));
    cell.style.background = turn.advantage === null ? turn.band : turn.tint;
    cell.style.borderBottom = '5px solid ' + turn.band;
  }
  trace.turns.forEach((turn, index) => drawTurn(root, turn, index));
  const prompt = add(root, 'details', undefined, 'prompt');
  add(prompt, 'summary', 'prompt');
  add(prompt, 'pre', trace.prompt);
}

function choose() {
  const step = at('step').value, success = at('success').value;
  shown = all.filter(t => (!step || time(t) === step) &&
                          (!success || verdict(t) === success));
  const list = at('which');
  list.replaceChildren();
  shown.forEach((t, i) => {
    const text = (i + 1) + ' of ' + shown.length + ' · ' + time(t) + ' · ' +
        verdict(t) + ' · ' + t.question.slice(0, 60);
    add(list, 'option', text).value = i;
  });
  place = 0;
  draw();
}

function go(to) {
  place = Math.max(0, Math.min(shown.length - 1, to));
  draw();
}

add(at('step'), 'option', 'all steps').value = '';
for (const step of new Set(all.map(time)))
  add(at('step'), 'option', step).value = step;
at('step').onchange = at('success').onchange = choose;
at('which').onchange = () => go(+at('which').value);
at('previous').onclick = () => go(place - 1);
at('next').onclick = () => go(place + 1);
document.onkeydown = event => {
  if (event.target.tagName === 'SELECT') return;
  if (event.key === 'ArrowLeft') go(place - 1);
  if (event.key === 'ArrowRight') go(place + 1);
};
choose();
""")
