-- A check of three levels by one of a thousand orgs in turn, each with an override.
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
local n = 0
function request()
    n = (n + 1) % 1000
    local body = string.format('{"orgId":"org-%08d","appId":"app-3","keyId":"key-1"}', n + 1)
    return wrk.format(nil, "/v1/check", nil, body)
end
