-- One call, over and over, for wrk. What to send comes from the environment; the result goes to
-- standard error as one line that bench/load.py reads.
wrk.method = "POST"
wrk.path = os.getenv("BENCH_PATH")
wrk.body = os.getenv("BENCH_BODY")
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer " .. os.getenv("BENCH_KEY")

function done(summary, latency)
    local errors = summary.errors
    io.stderr:write(string.format("result %d %d %d %f %f\n", summary.requests, summary.duration,
        errors.connect + errors.read + errors.write + errors.status + errors.timeout,
        latency:percentile(50), latency:percentile(99)))
end
