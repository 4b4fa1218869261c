/// The KeyValueStore of production: RocksDB in a local directory.
#pragma once

#include <memory>
#include <string>

#include <boost/asio/any_io_executor.hpp>

#include "metaserver/kv/key_value_store.h"
#include "metaserver/kv/store_check.h"

namespace kintsugi::metaserver {

/// How much memory a store may take.
struct RocksDbMemory {
  uint64_t cache_bytes = 320ull << 20;  ///< cache of values and blocks that were read
  /// Memory for writes that only the log has; up to twice as much is used.
  uint64_t write_buffer_bytes = 64ull << 20;
};

/// Group commit: one committer thread takes all batches that came since its last sync, writes them as one and syncs
/// once. Everything else runs on `executor`. Reads block the thread for as long as RocksDB needs (it usually reads
/// from memory). A read that meets damage ends the process, with the file and the block in its last words.
class RocksDbStore final : public KeyValueStore {
 public:
  static constexpr Duration kCheckInterval = 24h;  ///< pause between two checks of all files (StoreCheck)

  /// Makes the directory when it does not exist. kIoError, kUnavailable when another process has it open, or kCorrupt
  /// when something is damaged that was acknowledged; the directory is left as it is then.
  static Result<std::unique_ptr<RocksDbStore>> open(asio::any_io_executor executor,
                                                    const std::string& directory, RocksDbMemory memory = {},
                                                    Duration check_interval = kCheckInterval);
  /// Without close() what is pending may be lost, as in a crash.
  ~RocksDbStore() override;

  std::optional<std::string> get(std::string_view key) const override;
  void scan(std::string_view begin, std::string_view end,
            const std::function<bool(std::string_view, std::string_view)>& visit) const override;
  std::unique_ptr<const ReadView> snapshot() const override;
  asio::awaitable<Status> commit(Batch batch) override;
  uint64_t position() const override;
  StoreSpace space() const override;
  asio::awaitable<Status> durable() override;
  bool is_durable() const override;
  asio::awaitable<void> close() override;
  const StoreCheck& check() const;

 private:
  struct State;
  explicit RocksDbStore(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace kintsugi::metaserver
