return {
    name = "tollgate",
    fields = {
        {
            config = {
                type = "record",
                fields = {
                    -- The data plane over HTTP. Kong's address must be in its --trusted-proxies.
                    { url = { type = "string", required = true, default = "http://127.0.0.1:8080" } },
                    { token = { type = "string", required = false, encrypted = true, referenceable = true } },
                    -- Milliseconds.
                    { timeout = { type = "integer", required = true, default = 250 } },
                    -- What happens while Tollgate is away: everybody passes, or nobody.
                    { away = { type = "string", required = true, default = "closed", one_of = { "open", "closed" } } },
                    -- What a consumer that Kong has authenticated is to Tollgate.
                    { consumer_is = { type = "string", required = true, default = "org", one_of = { "org", "user", "nobody" } } },
                },
            },
        },
    },
}
