"""Training of predictive heads: modules, checkpoints and the recipe of the bundled heads.

`mmspec.checkpoints.head_manifest` names the tensors; the backends decode with the heads.
"""
