# The other side of bench/jobs: the same no-op job for a real Sidekiq.
require "sidekiq"

Sidekiq.logger.level = Logger::WARN
# Debian's redis gem complains of Debian's Sidekiq once a job: that is not what is measured.
Redis.silence_deprecations = true if Redis.respond_to?(:silence_deprecations=)

class LoadWorker
  include Sidekiq::Worker
  sidekiq_options queue: "default"

  def perform(text, number, hash)
  end
end
