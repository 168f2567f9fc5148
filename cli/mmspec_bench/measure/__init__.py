"""Single measurements: speed, costs of forwards, context, grounding.

Suites of questions are in `suite`.
"""
