"""Training of predictive heads: modules and checkpoints.

`mmspec.checkpoints.head_manifest` names the tensors; the backends decode with the heads.
"""
