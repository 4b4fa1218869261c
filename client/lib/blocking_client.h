/// The client for ordinary threads: a runtime of its own, served by a thread of its own.
#pragma once

#include <memory>
#include <utility>

#include <boost/asio/post.hpp>

#include "client/lib/client.h"
#include "common/runtime/production/run.h"
#include "monitoring/sight/observer.h"
#include "monitoring/sight/recorder.h"

namespace kintsugi::client {

/// Any thread may call; calls of several threads run at once. Its destructor stops the client and joins the thread.
/// REQUIRES, before it is destroyed: all calls have returned.
class BlockingClient {
 public:
  BlockingClient(Options options, rpc::Secret secret, runtime::TlsPolicy tls = {})
      : runtime_(Duration{}, std::move(tls)),
        recorder_(runtime_.runtime().clock, runtime_.runtime().random.next(),
                  {.ring_events = 1024, .max_paths = 256}),
        loop_(runtime_),
        observer_(
            observe(runtime_, options.recorder != nullptr ? *options.recorder : recorder_, options, secret)),
        client_(std::make_unique<Client>(runtime_.runtime(), recorded(std::move(options)), secret)) {}
  ~BlockingClient() {
    observer_.reset();
    run(client_->stop());
    run(destroy(std::move(client_)));
  }
  BlockingClient(const BlockingClient&) = delete;
  BlockingClient& operator=(const BlockingClient&) = delete;

  /// Runs a coroutine on the client's loop and waits for what it returns: `run(client.async().stat("/a"))`.
  template <class T>
  T run(asio::awaitable<T> task) {
    return runtime::run_on(runtime_, std::move(task));
  }

  /// Cancels what all threads run, and returns at once (Client::cancel).
  void cancel() {
    asio::post(runtime_.io(), [this] { client_->cancel(); });
  }

  Client& async() { return *client_; }
  runtime::ProductionRuntime& runtime() { return runtime_; }

  Result<proto::Attributes> stat(std::string path) { return run(client_->stat(std::move(path))); }
  Result<proto::Attributes> write(std::string path, Source& source, WriteOptions options = {}) {
    return run(client_->write(std::move(path), source, std::move(options)));
  }
  Result<proto::Attributes> read(std::string path, Sink& sink, ReadOptions options = {}) {
    return run(client_->read(std::move(path), sink, std::move(options)));
  }
  Result<size_t> read_at(std::string path, uint64_t offset, std::span<std::byte> into) {
    return run(client_->read_at(std::move(path), offset, into));
  }
  Result<proto::ListResponse> list(std::string path, std::string after = "") {
    return run(client_->list(std::move(path), std::move(after)));
  }
  Status make_directory(std::string path, bool parents) {
    return run(client_->make_directory(std::move(path), parents));
  }
  Status remove(std::string path, bool recursive) { return run(client_->remove(std::move(path), recursive)); }
  Status rename(std::string from, std::string to, bool replace) {
    return run(client_->rename(std::move(from), std::move(to), replace));
  }

 private:
  /// Runs on the loop's thread, to which the client's timers and sockets belong.
  static asio::awaitable<void> destroy(std::unique_ptr<Client> client) {
    client.reset();
    co_return;
  }

  static std::unique_ptr<sight::Observer> observe(runtime::ProductionRuntime& runtime,
                                                  const sight::Recorder& recorder, const Options& options,
                                                  const rpc::Secret& secret);
  Options recorded(Options options) {
    if (options.recorder == nullptr) options.recorder = &recorder_;
    return options;
  }

  runtime::ProductionRuntime runtime_;
  sight::Recorder recorder_;  ///< used unless the options name another recorder
  runtime::LoopThread loop_;
  std::unique_ptr<sight::Observer> observer_;  ///< reports slow operations to the monitor
  std::unique_ptr<Client> client_;
};

}  // namespace kintsugi::client
