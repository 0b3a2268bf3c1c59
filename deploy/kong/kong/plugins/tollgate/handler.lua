-- Asks Tollgate whether a request may go on. A denial goes to the client with its headers and body; the headers of an
-- allowed one are put on the response.

local http = require("resty.http")

local Tollgate = {
    -- After authentication, where Kong's own rate limiting stands.
    PRIORITY = 910,
    VERSION = "0.1.0",
}

-- What a client is told by.
local function tells(name)
    name = name:lower()
    return name == "retry-after" or name == "ratelimit" or name:find("^ratelimit%-") or name:find("^x%-ratelimit%-")
end

-- Who asks: a consumer is whom Kong has found it to be. Else of what the client says only its keys are passed on.
local function question(conf)
    local headers = {
        ["X-Forwarded-Method"] = kong.request.get_method(),
        ["X-Forwarded-Uri"] = kong.request.get_path_with_query(),
        ["X-Forwarded-For"] = kong.client.get_forwarded_ip(),
        -- With --data-token.
        ["X-Tollgate-Token"] = conf.token,
    }
    local consumer = conf.consumer_is ~= "nobody" and kong.client.get_consumer()
    if consumer then
        local name = conf.consumer_is == "org" and "X-Tollgate-Org" or "X-Tollgate-User"
        headers[name] = consumer.custom_id or consumer.username
    else
        -- All of each, so that one that comes twice is refused.
        local client = kong.request.get_headers(1000)
        headers["X-API-Key"] = client["X-API-Key"]
        headers["Authorization"] = client["Authorization"]
    end
    return headers
end

function Tollgate:access(conf)
    local client = http.new()
    client:set_timeout(conf.timeout)
    local answer, problem = client:request_uri(conf.url .. "/v1/authorize", {
        method = "GET",
        headers = question(conf),
        keepalive_timeout = 60000,
        keepalive_pool = 64,
    })
    if not answer or answer.status >= 500 then
        kong.log.err("Tollgate does not decide: ", problem or answer.status)
        if conf.away == "closed" then
            return kong.response.exit(503, "", { ["Retry-After"] = "1" })
        end
        return
    end
    local told = {}
    for name, value in pairs(answer.headers) do
        if tells(name) then
            told[name] = value
        end
    end
    if answer.status ~= 200 then
        told["Content-Type"] = answer.headers["Content-Type"]
        return kong.response.exit(answer.status, answer.body, told)
    end
    kong.ctx.plugin.told = told
end

function Tollgate:header_filter(conf)
    for name, value in pairs(kong.ctx.plugin.told or {}) do
        kong.response.set_header(name, value)
    end
end

return Tollgate
