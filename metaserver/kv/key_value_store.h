/// The seam behind which all metadata lives: RocksDB in production, an in-memory store whose crashes forget unsynced
/// batches in simulation. One conformance suite runs against each.
///
/// Reads see every batch handed to `commit` so far, in that order, whether it is durable yet or not: an operation is a
/// plain function between two suspension points, with no locks. Nothing may be told to the outside before what it was
/// derived from is durable: a writer awaits its own commit, a reader awaits `durable()`.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "common/base/status.h"

namespace kintsugi {
namespace asio = boost::asio;
}

namespace kintsugi::metaserver {

/// Writes that become visible, and durable, all or none.
struct Batch {
  struct Write {
    std::string key;
    std::optional<std::string> value;  ///< nullopt: the key is removed
  };
  std::vector<Write> writes;  ///< applied in order

  /// Nothing is in [begin, end) afterwards but what the batch puts there. It removes each key that was there as well:
  /// this only tells a store that scans need not look for anything between them.
  struct Emptied {
    std::string begin, end;
    size_t removed = 0;  ///< number of keys that were removed there, at least
  };
  std::vector<Emptied> emptied;

  void put(std::string key, std::string value) { writes.push_back({std::move(key), std::move(value)}); }
  void remove(std::string key) { writes.push_back({std::move(key), std::nullopt}); }
};

/// Something to read from: the live store, or a snapshot of it.
class ReadView {
 public:
  virtual ~ReadView() = default;
  virtual std::optional<std::string> get(std::string_view key) const = 0;
  /// Calls `visit(key, value)` for keys in [begin, end) in order until it returns false. An empty `end` is no limit.
  virtual void scan(std::string_view begin, std::string_view end,
                    const std::function<bool(std::string_view, std::string_view)>& visit) const = 0;
};

/// A value is UINT64_MAX where the file system has no limit.
struct StoreSpace {
  uint64_t total_bytes = 0;  ///< 0: unknown
  uint64_t free_bytes = UINT64_MAX;
  uint64_t free_inodes = UINT64_MAX;
};

/// Single-threaded for its callers, like all daemon code.
class KeyValueStore : public ReadView {
 public:
  /// Called once, on the executor, when the store has failed (see commit): nothing will ever be durable
  /// again. May be set at any time before.
  std::function<void(const Status&)> on_failure = [](const Status&) {};

  /// A consistent view that later commits do not change.
  virtual std::unique_ptr<const ReadView> snapshot() const = 0;

  /// Applies the batch to what reads see at once, before the first suspension; completes when the batch is durable
  /// (synced; many batches share one sync). After an I/O error every commit and durable() fails with it: the daemon
  /// must stop, because what readers saw may be lost.
  virtual asio::awaitable<Status> commit(Batch batch) = 0;

  /// How much has become durable since the store was made. It grows with every durable batch and outlives restarts, so
  /// a store that was put back from an older copy of its files stands at a lower position.
  virtual uint64_t position() const = 0;

  /// The space where the store lives.
  virtual StoreSpace space() const { return {}; }

  /// Completes when everything that reads have seen so far is durable. At once when nothing is pending.
  virtual asio::awaitable<Status> durable() = 0;
  /// durable() would complete at once, and well.
  virtual bool is_durable() const = 0;

  /// Waits for what is pending and closes. No other call may follow.
  virtual asio::awaitable<void> close() = 0;
};

}  // namespace kintsugi::metaserver
