"""Run workers in several processes, and scale them with the backlog."""
