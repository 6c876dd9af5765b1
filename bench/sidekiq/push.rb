# Pushes as many jobs as asked for, a thousand a call.
require_relative "worker"

total = Integer(ARGV.fetch(0))
started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
(0...total).each_slice(1000) do |numbers|
  args = numbers.map { |number| ["string", number, { "mike" => "bob" }] }
  Sidekiq::Client.push_bulk("class" => LoadWorker, "args" => args)
end
puts total / (Process.clock_gettime(Process::CLOCK_MONOTONIC) - started)
