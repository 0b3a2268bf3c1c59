-- Runs deploy/kong's plugin on one request as Kong would, with what it uses of Kong stood in for: the PDK is a table here, and
-- resty.http speaks through LuaSocket. It says what became of the request.
--
-- Usage: luajit kong.lua PLUGINS URL AWAY METHOD PATH [HEADER:VALUE…] [--consumer NAME]

local sockets, ltn12 = require("socket.http"), require("ltn12")

local plugins, url, away, method, path = unpack(arg, 1, 5)
package.path = plugins .. "/?.lua;" .. package.path

local request, consumer = {}, nil
for place = 6, #arg do
    if arg[place - 1] == "--consumer" then
        consumer = { username = arg[place] }
    else
        local name, value = arg[place]:match("^([^:]+):(.*)$")
        if name then
            name = name:lower()
            -- Of a header that comes twice Kong makes a list.
            request[name] = request[name] and { request[name], value } or value
        end
    end
end

-- Header names in any case, as both Kong and resty.http have them.
local function headers()
    return setmetatable({}, {
        __index = function(all, name)
            for known, value in next, all do
                if known:lower() == name:lower() then
                    return value
                end
            end
        end,
    })
end

package.preload["resty.http"] = function()
    return {
        new = function()
            return {
                set_timeout = function(_, timeout)
                    sockets.TIMEOUT = timeout / 1000
                end,
                request_uri = function(_, address, options)
                    local body, sent = {}, {}
                    for name, value in pairs(options.headers) do
                        -- LuaSocket has no lists; a line end within a value makes another line.
                        if type(value) == "table" then
                            value = table.concat(value, "\r\n" .. name .. ": ")
                        end
                        sent[name] = value
                    end
                    local ok, status, received = sockets.request({
                        url = address,
                        method = options.method,
                        headers = sent,
                        sink = ltn12.sink.table(body),
                    })
                    if not ok then
                        return nil, status
                    end
                    local answered = headers()
                    for name, value in pairs(received) do
                        answered[name] = value
                    end
                    return { status = status, headers = answered, body = table.concat(body) }
                end,
            }
        end,
    }
end

local response = headers()
local function show(status, body)
    print("status " .. status)
    for name, value in next, response do
        print(name:lower() .. ": " .. value)
    end
    print("")
    print(body)
    os.exit(0)
end

kong = {
    request = {
        get_method = function() return method end,
        get_path_with_query = function() return path end,
        get_headers = function()
            local all = headers()
            for name, value in pairs(request) do
                all[name] = value
            end
            return all
        end,
    },
    client = {
        get_forwarded_ip = function() return "203.0.113.9" end,
        get_consumer = function() return consumer end,
    },
    response = {
        exit = function(status, body, told)
            for name, value in pairs(told) do
                response[name] = value
            end
            show(status, body)
        end,
        set_header = function(name, value) response[name] = value end,
    },
    ctx = { plugin = {} },
    log = { err = function(...) io.stderr:write(...) end },
}

-- What the schema says where the configuration says nothing.
local conf = {}
for _, field in ipairs(require("kong.plugins.tollgate.schema").fields[1].config.fields) do
    local name, rule = next(field)
    conf[name] = rule.default
end
conf.url, conf.away = url, away

local plugin = require("kong.plugins.tollgate.handler")
plugin:access(conf)
-- The service answers.
plugin:header_filter(conf)
show(200, "served")
