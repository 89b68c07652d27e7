"""The Key_Shared dispatchers: which consumer gets which sticky key, and in which order keys are replayed."""
