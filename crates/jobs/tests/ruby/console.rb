# Sidekiq's own API, a line at a time: Ruby in, JSON out.

# Sidekiq logs to the standard output, which is for the answers.
answers = $stdout.dup
answers.sync = true
$stdout.reopen($stderr)

require "json"
require "sidekiq"
require "sidekiq/api"
require_relative "worker"

# The queue and the first argument of each job that runs.
def running
  Sidekiq::WorkSet.new.map do |_process, _thread, work|
    # Up to Sidekiq 6 it is a hash.
    next [work["queue"], work["payload"]["args"][0]] if work.is_a?(Hash)
    [work.queue, work.job.args[0]]
  end
end

while (line = $stdin.gets)
  answers.puts JSON.generate([eval(line)])
end
