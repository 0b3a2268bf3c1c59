-- A check of three levels, by one of a thousand keys in turn.
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
local n = 0
function request()
    n = (n + 1) % 1000
    local body = '{"orgId":"acme","appId":"web","keyId":"key-' .. n .. '","endpoint":"POST /v1/records"}'
    return wrk.format(nil, "/v1/check", nil, body)
end
