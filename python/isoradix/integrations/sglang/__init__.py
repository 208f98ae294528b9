"""isoradix as the prefix cache of an SGLang server: `--radix-cache-backend isoradix`.

The server finds `register` by its entry point, in every process. Nothing of SGLang is imported before that.

====================  ==================================================================================
module                what it is
====================  ==================================================================================
`plugin`              what the server calls: registration, and the factory of the cache
`assembly`            one rank put together: options, plane, pools, engine, driver, cache
`versions`            the versions of SGLang whose interface this is
`options`             what can be told beside the server's own flags
`limits`              combinations that are refused at start, with their reasons
`domain`              which ranks decide together, and the plane that connects them
`pools`               the server's memory as slots and pools of this package
`cache`               the cache as the scheduler calls it: device tier
`tiers`               the same with host memory below
`guard`               ends the server when ranks are lost to each other
`layers`              who waits for a load-back, layer by layer
`metrics`             this package's counts on the server's page
`events`              what enters and leaves the cache, in the server's own words
====================  ==================================================================================
"""


def register() -> None:
    """Registers the back end `isoradix` in this process: the entry point of group `sglang.srt.plugins`."""
    from isoradix.integrations.sglang import plugin  # SGLang is there by now

    plugin.register()
