-- Sends the body that is given as an argument, and prints the figures as one line of JSON.
function init(args)
   if args[1] then
      wrk.method = "POST"
      wrk.body = args[1]
      wrk.headers["Content-Type"] = "application/json"
   end
end

function done(summary, latency, requests)
   local errors = summary.errors
   local failed = errors.connect + errors.read + errors.write + errors.timeout + errors.status
   local line = '{"requests": %d, "microseconds": %d, "failed": %d, "p99": %d}\n'
   io.write(string.format(line, summary.requests, summary.duration, failed, latency:percentile(99.0)))
end
