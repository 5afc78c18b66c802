# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The frame of the report: its template and its style.

Jinja escapes whatever is not markup of our own.
"""

STYLE = """
body { font: 14px/1.5 system-ui, -apple-system, 'Segoe UI', Helvetica,
  Arial, 'DejaVu Sans', sans-serif;
  color: #1d242c; background: #fff; max-width: 1080px; margin: 0 auto;
  padding: 24px; }
h1 { font-size: 24px; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 17px; margin: 36px 0 6px; }
h3 { font-size: 14px; margin: 20px 0 2px; overflow-wrap: anywhere; }
p.note { color: #5c6672; margin: 4px 0 10px; max-width: 75ch; }
img { width: 100%; display: block; }
.missing { border-left: 4px solid #E69F00; background: #fdf6e3;
  padding: 8px 12px; margin: 12px 0; }
.tiles { display: flex; flex-wrap: wrap; gap: 12px; margin: 16px 0; }
.tiles div { border: 1px solid #e3e7eb; border-radius: 8px;
  padding: 10px 16px; }
.tiles b { display: block; font-size: 19px; font-weight: 600; }
.tiles span { color: #5c6672; font-size: 12px; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px;
  font-variant-numeric: tabular-nums; }
th, td { padding: 5px 10px; text-align: right; white-space: nowrap;
  border-bottom: 1px solid #e3e7eb; }
th { color: #5c6672; font-weight: 500; white-space: normal;
  vertical-align: bottom; }
table.clusters { width: 100%; }
.clusters td { vertical-align: top; }
.clusters .words { text-align: left; white-space: normal; width: 100%;
  overflow-wrap: anywhere; }
.clusters .words div + div { border-top: 1px dotted #e3e7eb; }
"""

TEMPLATE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none';
 img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>{{ name }}</title>
<style>{{ style }}</style>
</head>
<body>
<h1>{{ name }}</h1>
{% for file in missing %}
<div class="missing">{{ file }} is missing or empty: what is drawn from it is
left out.</div>
{% endfor %}
<div class="tiles">
{% for value, label in tiles %}
<div><b>{{ value }}</b><span>{{ label }}</span></div>
{% endfor %}
</div>

<h2>Learning</h2>
{% if learning %}
{{ learning }}
<p class="note">Useless searches: search turns without contribution in
successful trajectories, per successful trajectory. Bars are standard
errors.</p>
{% else %}<p class="note">No curve yet.</p>{% endif %}

{% for phase, image in curves.items() %}
<h2>Curves, {{ phase }}</h2>
{{ image }}
{% endfor %}

<h2>Evaluation</h2>
{% if evaluations %}
<div class="wide"><table>
<tr>{% for column in columns %}<th>{{ column.replace('_', ' ') }}</th>
{% endfor %}<th>em by hops</th></tr>
{% for cells in evaluations %}
<tr>{% for cell in cells %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}
</table></div>
{% else %}<p class="note">No evaluation yet.</p>{% endif %}

{% if prompts %}
<h2>What was read, round by round</h2>
{{ prompts }}
<p class="note">Mean tokens before the sampled ones of a round, over the
trajectories that had the round.</p>
{% endif %}

<h2>Contributions over turns</h2>
{% if contributions %}
{{ contributions }}
<p class="note">Mean contribution of the judged search turns of successful
trajectories, by their place in the trajectory.</p>
{% else %}<p class="note">No turn was judged.</p>{% endif %}

{% if clusters %}
<h2>Facts and what they were worth</h2>
<p class="note">The last recorded questions and the clusters of the facts that
their rollouts told, highest utility first. The utility of a cluster estimates
how much likelier than its group a rollout was to succeed that told it.</p>
{% for question in clusters %}
<h3>{{ question.text }}</h3>
<p class="note">gold: {{ question.answers | join('  |  ') }} &middot; step
{{ question.step }} &middot; {{ question.successes }} of
{{ question.rollouts }} rollouts succeeded
{%- if question.invalid %}, {{ question.invalid }} invalid{% endif %}
{%- if not question.clusters %} &middot; no fact was told{% endif %}
{%- if question.more %} &middot; {{ question.more }} clusters with utilities
nearest to 0 left out{% endif %}</p>
{% if question.clusters %}
<div class="wide"><table class="clusters">
<tr><th>utility</th><th>told by</th><th>succeeded</th>
<th class="words">facts</th></tr>
{% for cluster in question.clusters %}
<tr><td>{{ '—' if cluster.utility is none else '%+.3f' | format(cluster.utility)
 }}</td><td>{{ cluster.rollouts }}</td><td>{{ cluster.successes }}</td>
<td class="words">
{% for wording in cluster.wordings %}
<div>{{ wording }}</div>
{% endfor %}
{% if cluster.more %}
<div>and {{ cluster.more }} more</div>
{% endif %}
</td></tr>
{% endfor %}
</table></div>
{% endif %}
{% endfor %}
{% endif %}

<h2>Where the time went</h2>
{% if time %}{{ time }}<p class="note">{{ time_line }}</p>
{% else %}<p class="note">No step was timed.</p>{% endif %}

<h2>Trajectories</h2>
{% if sample %}
<p class="note">{{ sample | length }} trajectories spread over the run,
successes and failures of the same step. Every turn has the colour of the
advantage it received; replies, on white, were given and never trained on.
Arrow keys go on and back.</p>
<div class="legend">advantage
<span>&minus;{{ '%.2f' | format(scale) }}</span>
<i style="background: linear-gradient(90deg, {{ red }}, #fff,
 {{ blue }})"></i><span>+{{ '%.2f' | format(scale) }}</span>
<b style="background: {{ unknown }}"></b> none</div>
{{ controls }}
<main id="trajectory"></main>
<script type="application/json" id="traces">{{ data }}</script>
<script>{{ script }}</script>
{% else %}<p class="note">No trajectory was written.</p>{% endif %}
</body>
</html>
"""
