# Reads a Homebrew formula on a stand-in for its language and prints what a machine would download, as JSON:
#   ruby recorded_formula.rb FILE macos|linux arm|intel
require "json"
FILE, SYSTEM, PROCESSOR = ARGV

module Language; module Python; module Virtualenv; end; end; end

class Formula
  SAID = { resources: {}, refused: false }
  class << self
    %i[desc homepage license version].each { |name| define_method(name) { |value = nil| SAID[name] = value } }
    def url(value, using: nil) = (target[:url] = value)
    def sha256(value) = (target[:sha256] = value)
    def target = @resource || SAID
    def depends_on(what) = what.is_a?(Hash) && what.key?(:arch) ? SAID[:refused] = what[:arch].to_s != (PROCESSOR == "arm" ? "arm64" : "x86_64") : (SAID[:depends_on] = what)
    def on_macos = (yield if SYSTEM == "macos")
    def on_linux = (yield if SYSTEM == "linux")
    def on_arm = (yield if PROCESSOR == "arm")
    def on_intel = (yield if PROCESSOR == "intel")
    def test = nil

    def resource(name)
      raise "#{name} twice" if SAID[:resources].key?(name)

      @resource = SAID[:resources][name] = {}
      yield
      @resource = nil
    end
  end
end

load FILE
raise "no install" unless McpxGateway.instance_methods(false).include?(:install)

puts JSON.generate(Formula::SAID)
