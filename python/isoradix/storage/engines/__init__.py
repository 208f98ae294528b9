"""The engines that come with isoradix. Each is imported when a URL asks for it."""
