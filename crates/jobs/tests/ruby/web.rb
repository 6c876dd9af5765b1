# The real Sidekiq Web on a port of its own: `ruby web.rb PORT`.
require "sidekiq"
require "sidekiq/web"
require "rack/session/cookie"
require "rack/handler/webrick"

web = Rack::Builder.new do
  use Rack::Session::Cookie, secret: "a" * 64, same_site: true
  run Sidekiq::Web
end
quiet = WEBrick::Log.new(File::NULL)
Rack::Handler::WEBrick.run(
  web, Host: "127.0.0.1", Port: ARGV.fetch(0).to_i, Logger: quiet, AccessLog: []
)
