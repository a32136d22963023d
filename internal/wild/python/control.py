#!/usr/bin/python3
"""The worker that others copy, scenarios/workers/python/worker.py, as it stands: a drill must accuse it of nothing."""
import skeleton

skeleton.run(skeleton.worker.Hold)
