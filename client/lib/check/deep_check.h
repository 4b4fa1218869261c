/// Reads every chunk of the files below a path where it lies, parity too, and sees that what is damaged is repaired.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "client/lib/check/check_report.h"
#include "client/lib/check/check_round.h"
#include "client/lib/check/repair_wait.h"
#include "common/proto/meta.pb.h"

namespace kintsugi::client {

/// The servers read; only their verdicts travel. A verdict is compared with what the metaserver has recorded, and a
/// chunk that is damaged is told to the metaserver at once, which has it repaired. Memory is bounded by the limits of
/// CheckRound and RepairWait and kMaxAgain, whatever the number of files. Use once.
class DeepCheck final : private CheckRound::Observer {
 public:
  /// Chunks that could not be read, or were elsewhere, are located and tried again in up to so many rounds in all.
  static constexpr int kRounds = 3;
  static constexpr Duration kBetweenRounds = std::chrono::seconds(1);
  /// Chunks that are read again in the next round; further ones count as unread.
  static constexpr size_t kMaxAgain = 100'000;

  /// `resources` outlives it.
  DeepCheck(Resources& resources, Context context, std::string path, DeepCheckOptions options);

  /// Fills `report`. Errors are those of the metaserver, and kCancelled; what servers fail at is in the report.
  asio::awaitable<Status> run(DeepCheckReport& report);

 private:
  struct Again {
    ChunkId id;
    std::shared_ptr<const std::string> path;
    ServerId server;  ///< server on which the chunk could not be read
    std::string server_name;
    std::string address;
    Status why;
  };

  asio::awaitable<Status> count();
  asio::awaitable<Status> check_all();
  asio::awaitable<Status> check_again();
  asio::awaitable<Status> add_files(CheckRound& round);
  asio::awaitable<Status> add_leftovers(CheckRound& round, std::vector<Again> leftovers);
  /// Adds the chunk, or counts it as missing or damaged when the metaserver knows that it cannot be read.
  asio::awaitable<Status> add(CheckRound& round, StripeId stripe, const proto::ChunkPlacement& chunk,
                              TimePoint located, std::shared_ptr<const std::string> path);

  void read(uint64_t bytes) override;
  asio::awaitable<Status> verified(const CheckedChunk& chunk, const proto::VerifiedChunk& found) override;
  void unread(const CheckedChunk& chunk, const Status& why) override;
  /// The chunk is not what the metaserver said: sees whether that is news.
  asio::awaitable<Status> found_damaged(const CheckedChunk& chunk, Damage damage, std::string detail);
  asio::awaitable<Status> report_lost(const CheckedChunk& chunk, Damage damage, const std::string& detail);
  void count_unread(const Again& chunk);
  void tell_progress();

  Resources& resources_;
  Context context_;  ///< context of its own region while it runs
  const std::string path_;
  const DeepCheckOptions options_;
  DeepCheckProgress progress_;
  RepairWait repairs_;
  std::vector<Again> again_;  ///< chunks for the next round
  std::map<ServerId, UnreadChunks> unread_;
  uint64_t missing_ = 0;
};

}  // namespace kintsugi::client
