# Sidekiq's own API, a line at a time: Ruby in, JSON out.
require "json"
require "sidekiq"
require "sidekiq/api"
require_relative "worker"

$stdout.sync = true
puts "ready"
while (line = $stdin.gets)
  puts JSON.generate([eval(line)])
end
