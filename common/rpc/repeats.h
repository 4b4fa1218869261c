/// Changes that may come again, over another connection, since their sender heard no answer.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <boost/asio/awaitable.hpp>

#include "common/base/status.h"
#include "common/proto/types.pb.h"
#include "common/rpc/method.h"
#include "common/runtime/context.h"
#include "common/runtime/event.h"
#include "common/runtime/runtime.h"

namespace kintsugi::rpc {

/// Two calls of one change never run at the same time, and one that was refused is refused again. Otherwise a call whose
/// sender was told "does not exist", when it sent the change once more, could be carried out afterwards: it may still
/// wait for a client to give back a lease, or arrive late over a connection that was given up. A call that never ends
/// keeps its change from being tried again.
///
/// Handlers know what was carried out, for they note that with what they store.
class Repeats {
 private:
  /// Identifies a change.
  struct Key {
    uint64_t session = 0, number = 0;
    uint32_t generation = 0;
    bool operator==(const Key&) const = default;
  };
  /// Sessions are random numbers, and those of one count from 1 on: the slots of one client follow each other.
  struct Hash {
    size_t operator()(const Key& key) const { return key.session + key.number; }
  };

 public:
  explicit Repeats(const runtime::Runtime& runtime) : runtime_(runtime) {}

  /// A call as it came.
  struct Call {
    const proto::Change& change;  ///< outlives the turn, and has a number
    Method method{};
    /// The token that it is made with; 0: the secret.
    uint64_t token = 0;
    std::string_view bytes;  ///< the request; outlives the turn
  };
  /// One call of a change, while it lives. Move-only.
  class Turn {
   public:
    Turn(Turn&& other) noexcept
        : repeats_(std::exchange(other.repeats_, nullptr)), call_(other.call_), waited_(other.waited_) {}
    ~Turn();
    /// Another call of the change was under way when this one came.
    bool has_waited() const { return waited_; }
    /// Remembers how the call ended, if it was refused.
    void ended(const Status& status) const;

   private:
    friend class Repeats;
    Turn(Repeats* repeats, const Call& call, bool waited) : repeats_(repeats), call_(call), waited_(waited) {}
    Repeats* repeats_;  ///< null: moved from
    Call call_;
    bool waited_;
  };
  /// The sender would send it again under the same number, if it heard no answer.
  static bool concerns(const proto::Change* change) { return change != nullptr && change->session() != 0; }
  /// Returns once no other call of the change is under way. An error is the answer: that with which the same call was
  /// refused before, or kDeadlineExceeded.
  asio::awaitable<Result<Turn>> begin(Context context, Call call);

 private:
  /// So many refusals are remembered, in slots that later ones take over: a repeat comes within seconds.
  static constexpr uint64_t kSlots = 16'384;
  struct Refusal {
    Key change;
    /// Hash of the rest of the call: after a refusal a client may use the number for something else.
    size_t call = 0;
    Status status;
  };
  static Key key_of(const Call& call) {
    return {call.change.session(), call.change.number(), call.change.generation()};
  }
  static uint64_t slot_of(const Key& change) { return Hash{}(change) % kSlots; }

  const runtime::Runtime runtime_;
  /// Calls that have their turn, and what is notified when it ends; null: nobody waits for that.
  std::unordered_map<Key, std::shared_ptr<runtime::Event>, Hash> under_way_;
  std::unordered_map<uint64_t, Refusal> refused_;  ///< by slot
};

}  // namespace kintsugi::rpc
