-- Asks Tollgate whether a request may go on. A denial goes to the client with its headers and body; the headers of an
-- allowed one are kept in variables for the response.

local url = os.getenv("TOLLGATE_URL") .. "/v1/authorize"
local closed = os.getenv("TOLLGATE_AWAY") ~= "open"
-- With --data-token, show it by this variable.
local token = os.getenv("TOLLGATE_DATA_TOKEN")

local kept = {
    ["ratelimit-policy"] = "txn.limit_policy",
    ["ratelimit"] = "txn.limit_state",
    ["x-ratelimit-limit"] = "txn.limit_limit",
    ["x-ratelimit-remaining"] = "txn.limit_remaining",
    ["x-ratelimit-reset"] = "txn.limit_reset",
}
-- What belongs to the connection or is made anew.
local left_out = { ["content-length"] = true, ["connection"] = true, ["transfer-encoding"] = true, ["date"] = true }

local function refuse(txn, status, headers, body)
    local reply = txn:reply({ status = status, body = body })
    for name, values in pairs(headers) do
        if not left_out[name] then
            for _, value in pairs(values) do
                reply:add_header(name, value)
            end
        end
    end
    txn:done(reply)
end

core.register_action("tollgate", { "http-req" }, function(txn)
    local client = txn.http:req_get_headers()
    -- What is no path, such as the `*` of `GET *`, is passed on as it came, for Tollgate to refuse.
    local path = txn.f:pathq()
    if not path or path:sub(1, 1) ~= "/" then
        path = txn.f:url()
    end
    local headers = {
        ["x-forwarded-method"] = { txn.f:method() },
        ["x-forwarded-uri"] = { path },
        ["x-forwarded-for"] = { tostring(txn.f:src()) },
    }
    -- Of what the client says only its keys are passed on: all of them, so that one that comes twice is refused.
    for _, name in ipairs({ "x-api-key", "authorization" }) do
        if client[name] then
            headers[name] = {}
            for _, value in pairs(client[name]) do
                table.insert(headers[name], value)
            end
        end
    end
    if token then
        headers["x-tollgate-token"] = { token }
    end
    local answer = core.httpclient():get({ url = url, headers = headers, timeout = 250 })
    if not answer or not answer.status or answer.status == 0 or answer.status == 503 or answer.status == 504 then
        if closed then
            refuse(txn, 503, { ["retry-after"] = { "1" } }, "")
        end
        return
    end
    if answer.status ~= 200 then
        return refuse(txn, answer.status, answer.headers, answer.body)
    end
    for name, variable in pairs(kept) do
        local values = answer.headers[name]
        if values then
            txn:set_var(variable, values[0])
        end
    end
end)
