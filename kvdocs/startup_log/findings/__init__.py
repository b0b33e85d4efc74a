"""Conclusions from one start's figures: one module a topic, one short function a conclusion."""
