/// A connection of the C interface: a client with a thread of its own, and calls to it from any other.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include <boost/asio/awaitable.hpp>

#include "client/capi/include/kintsugi/kintsugi.h"
#include "client/capi/outcome.h"
#include "client/lib/blocking_client.h"
#include "common/proto/inode.pb.h"
#include "common/rpc/secret.h"

namespace kintsugi::capi {

class File;

struct ConnectionSettings {
  client::Options client;
  client::FilesOptions files;
  rpc::Secret secret;
  runtime::TlsPolicy tls;
  proto::Caller caller;  ///< the user in whose name all operations are done
  uint32_t umask = 022;
  size_t max_outstanding = 1024;  ///< limit for asynchronous calls
};

/// Made by connect(), and ended by disconnect(): after that it is an empty shell, and calls are kBadHandle. REQUIRES,
/// before it is destroyed: disconnect() was called.
class Connection {
 public:
  /// Returns once the metaserver has answered: kUnavailable; kPermissionDenied.
  static Result<std::shared_ptr<Connection>> connect(ConnectionSettings settings);
  ~Connection();

  // ---- from any thread
  /// Runs the task on the connection's thread, and waits for it. kDeadlock: this is that thread.
  Outcome call(asio::awaitable<Outcome> task);
  /// Has `callback` called on the connection's thread with what the task comes to. kWouldBlock: too many have not
  /// ended.
  static Status submit(const std::shared_ptr<Connection>& self, asio::awaitable<Outcome> task,
                       kintsugi_callback callback, void* user);
  /// Waits for all calls, closes what is open and stops the thread. The first error of writing out. kBadHandle: done
  /// before; kDeadlock: this is the connection's thread.
  Status disconnect();
  bool is_own_thread() const { return std::this_thread::get_id() == thread_; }
  /// kDeadlock: this is the connection's thread, which must not wait for itself, nor for a thread that waits for it.
  Status check_may_wait() const;

  // ---- from tasks, on the connection's thread
  client::Client& client() { return client_->async(); }
  client::OpenFiles& files() { return *files_; }
  Context context() { return client().context(); }
  client::InodeCalls& calls() { return files_->calls(); }
  const proto::Caller& caller() const { return settings_.caller; }
  uint32_t umask() const { return settings_.umask; }
  runtime::Runtime& runtime() { return client_->runtime().runtime(); }
  /// Files that disconnect() has to close.
  std::set<std::shared_ptr<File>>& open() { return open_; }

 private:
  explicit Connection(ConnectionSettings settings);

  /// A call begins; false when the connection has ended. To be followed by leave().
  bool enter();
  void leave();
  asio::awaitable<Status> begin();
  asio::awaitable<Status> end();

  const ConnectionSettings settings_;
  std::thread::id thread_;  ///< thread of the client; set before connect() returns
  std::mutex mutex_;
  std::condition_variable left_;
  bool ending_ = false;
  size_t calls_ = 0;        ///< calls that have not ended
  size_t outstanding_ = 0;  ///< asynchronous calls that have not ended
  std::unique_ptr<client::BlockingClient> client_;
  std::unique_ptr<client::OpenFiles> files_;
  std::set<std::shared_ptr<File>> open_;
};

using ConnectionPtr = std::shared_ptr<Connection>;

}  // namespace kintsugi::capi
