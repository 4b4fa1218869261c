/// Numbers for the changes of a session, by which the metaserver knows a change that comes again.
#pragma once

#include <cstdint>
#include <set>
#include <utility>

#include <boost/asio/awaitable.hpp>

#include "common/proto/agreed_numbers.h"
#include "common/proto/inode.pb.h"
#include "common/runtime/context.h"
#include "common/runtime/event.h"

namespace kintsugi::client {

/// Which changes a process has begun, in memory that may outlive it: the next process of the session repeats what it is
/// asked once more under the same number, and the metaserver knows it. All zero at first.
struct ChangeJournal {
  uint64_t session = 0;
  uint32_t generation = 0;  ///< the generation of the process that uses it now, from 1 on
  struct Slot {
    uint64_t number = 0;
    /// What the change was made for, as the process names it. 0: nothing that could come again.
    uint64_t tag = 0;
    uint32_t generation = 0;
  };
  Slot slots[proto::kGenerations * proto::kMaxChangesUnderWay];
};

/// REQUIRES, before it is destroyed: no change is under way.
class ChangeNumbers {
 public:
  /// `journal` null: nobody continues with this session. One that another process has left continues with its session.
  /// It outlives this.
  ChangeNumbers(const runtime::Runtime& runtime, ChangeJournal* journal);
  ~ChangeNumbers();
  ChangeNumbers(const ChangeNumbers&) = delete;

  uint64_t session() const { return session_; }
  /// A process before this one had the session.
  bool takes_over() const { return takes_over_; }
  /// The number of this process among those that had the session.
  uint32_t generation() const { return journal_.generation; }

  /// The number of one change, from before its first attempt until its last one has ended. Move-only.
  class Turn {
   public:
    Turn(Turn&& other) noexcept
        : numbers_(std::exchange(other.numbers_, nullptr)), change_(std::move(other.change_)) {}
    ~Turn();
    const proto::Change& change() const { return change_; }

   private:
    friend class ChangeNumbers;
    Turn(ChangeNumbers* numbers, proto::Change change) : numbers_(numbers), change_(std::move(change)) {}
    ChangeNumbers* numbers_;
    proto::Change change_;
  };
  /// Waits while too many changes are under way, on behalf of `context`. A `tag` that a former process of the session
  /// used gets the same number once more.
  asio::awaitable<Turn> begin(Context context, uint64_t tag = 0);

 private:
  void end(uint64_t number);

  ChangeJournal own_journal_;
  ChangeJournal& journal_;
  const bool takes_over_;
  const uint64_t session_;
  uint64_t next_number_ = 1;
  std::set<uint64_t> under_way_;
  runtime::Event ended_;
};

}  // namespace kintsugi::client
