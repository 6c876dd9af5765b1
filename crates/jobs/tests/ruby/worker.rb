# What a real Sidekiq process runs in the tests: `sidekiq -r worker.rb`.

class GreetWorker
  include Sidekiq::Job
  sidekiq_options queue: "greetings"

  # Answers whoever enqueued it.
  def perform(name, number)
    Sidekiq::Client.push(
      "class" => "Answer", "queue" => "answers", "jid" => jid,
      "args" => [{ "text" => "Hello #{name}", "number" => number }]
    )
  end
end

class FailingWorker
  include Sidekiq::Job
  sidekiq_options queue: "greetings", retry: 3

  def perform(options)
    raise ArgumentError, "no #{options.fetch("what")}"
  end
end
