"""The drills of the lesson, one topic a module."""
