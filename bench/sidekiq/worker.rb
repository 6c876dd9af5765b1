# The other side of bench/jobs: the same no-op job for a real Sidekiq.
require "sidekiq"

Sidekiq.logger.level = Logger::WARN

class LoadWorker
  include Sidekiq::Worker
  sidekiq_options queue: "default"

  def perform(text, number, hash)
  end
end
