"""``multipilot sweep``: many simulations or trainings, here or on a Ray cluster, into one Parquet data set.

cells    what there is to run: a changed scenario, or a training; its hash is its name
work     one cell, in whatever process
pool     worker processes of this machine
cluster  the same on Ray
dataset  the data set: one file a cell, appended atomically
cli      the command
"""
