-- A check of three levels, by one of some keys in turn.
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
local n, keys = 0, 1000
function init(arguments)
    keys = tonumber(arguments[1]) or keys
end
function request()
    n = (n + 1) % keys
    local body = '{"orgId":"acme","appId":"web","keyId":"key-' .. n .. '","endpoint":"POST /v1/records"}'
    return wrk.format(nil, "/v1/check", nil, body)
end
