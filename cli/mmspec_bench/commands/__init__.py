"""The commands of `mmspec bench`.

Their implementation is in the packages beside this one.
"""
