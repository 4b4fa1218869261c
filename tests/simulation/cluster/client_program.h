/// The client library on its machine, and how many operations of it are under way.
#pragma once

#include <memory>

#include "client/lib/client.h"
#include "common/rpc/secret.h"
#include "common/runtime/event.h"
#include "monitoring/sight/recorder.h"
#include "tests/simulation/cluster/program.h"

namespace kintsugi::simulation {

class ClientProgram final : public Program {
 public:
  ClientProgram(const runtime::Runtime& runtime, client::Options options, const rpc::Secret& secret,
                uint64_t recorder_seed, std::string name)
      : runtime_(runtime), name_(std::move(name)), recorder_(runtime.clock, recorder_seed), idle_(runtime) {
    options.recorder = &recorder_;
    client_ = std::make_unique<client::Client>(runtime_, std::move(options), secret);
  }

  client::Client& client() { return *client_; }

  asio::awaitable<Status> start() override {
    if (reports_) reports_->start();
    co_return Status{};
  }
  asio::awaitable<void> stop() override {
    if (reports_) co_await reports_->stop();
    co_await client_->stop();
    while (operations_ > 0)
      co_await idle_.wait();
  }
  const sight::Recorder& recorder() const override { return recorder_; }
  sight::Reporting who() const override { return {.kind = "client", .name = name_}; }

  /// Lives in a coroutine that uses the client: keeps it from being destroyed.
  class Use {
   public:
    explicit Use(ClientProgram& program) : program_(program) { ++program_.operations_; }
    ~Use() {
      if (--program_.operations_ == 0) program_.idle_.notify_all();
    }
    Use(const Use&) = delete;

   private:
    ClientProgram& program_;
  };

 private:
  runtime::Runtime runtime_;
  const std::string name_;
  sight::Recorder recorder_;
  std::unique_ptr<client::Client> client_;
  runtime::Event idle_;
  size_t operations_ = 0;
};

}  // namespace kintsugi::simulation
