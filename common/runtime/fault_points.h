/// Places in the code where an operator of a test can have something go wrong: a coroutine that never continues, a slow
/// answer, a lost message, a loop that does not end. Built in by the CMake option KINTSUGI_FAULT_POINTS; without it no
/// call of them is left.
///
/// They know nothing of annotations and leave no trace in them: what finds faults has to find them by what they do.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include "common/base/status.h"
#include "common/runtime/clock.h"
#include "common/runtime/event.h"
#include "common/runtime/runtime.h"

namespace kintsugi::runtime {

/// Where. The names that people use are in fault_points.cc.
enum class FaultPoint : uint8_t {
  kServeCall,    ///< a handler of a unary call, before it begins; detail: the method
  kServeStream,  ///< a handler of a streaming call, before it begins; detail: the method
  kAnswer,       ///< the answer of a unary call; detail: the method
  kCall,         ///< a unary call of this process, before it is sent; detail: the method
  kSendChunk,    ///< a frame of a chunk that is read; detail: the reader's address
  kDiskRead,     ///< a read from a chunkserver's disk; detail: the path
  kDiskWrite,
  kDiskSync,
  kStoreCommit,  ///< a change of the metadata
  kOwnSum,       ///< a helper's own part of a repair, slice by slice; detail: STRIPE:INDEX
  kForwardSum,   ///< a helper hands a slice on to its parent
  kRebuild,      ///< a repair site puts a slice in its place
  kStartRepair,  ///< a repair manager, before it sends a repair out
  kHeartbeat,
  kWake,     ///< somebody who waits is woken; detail: "record"
  kRelease,  ///< what others wait for is given back; detail: "buffer", "claim", "repair slots"
  kComplete,  ///< somebody gets what was promised; detail: "record", "disk call", "rebuilt", "repair", "commit"
  kDeadlock,  ///< two coroutines wait for each other; detail: "read", of the one that reads and the one that sends
  kCount
};

enum class FaultAction : uint8_t {
  kHang,        ///< the coroutine does not continue until the fault is removed
  kDelay,       ///< the coroutine continues after `delay`
  kError,       ///< the call fails with `code`
  kCorrupt,     ///< one byte of the message or block is another one
  kDrop,        ///< the message is lost
  kRepeat,      ///< the message is sent twice
  kCpuLoop,     ///< the thread runs in a circle for `delay`
  kMemoryWalk,  ///< another thread writes to `bytes` of memory, at random, for `delay`
  kLeak,        ///< `bytes` are allocated and never given back, each time
  kLeakSocket,  ///< a socket is opened and never closed, each time
  kCount
};

std::string_view name_of(FaultPoint point);
std::string_view name_of(FaultAction action);
Result<FaultPoint> fault_point_of(std::string_view name);
Result<FaultAction> fault_action_of(std::string_view name);

/// What is done at the place can only be lost (kHang) or come late (kDelay): nobody has a message in the hands there.
bool can_only_be_lost(FaultPoint point);

struct Fault {
  FaultPoint point{};
  FaultAction action{};
  /// The fault happens only where the detail contains this text; empty: everywhere.
  std::string detail;
  uint64_t skip = 0;   ///< passes that are left alone at first
  uint64_t times = 0;  ///< how many passes the fault happens to; 0: all
  Duration delay = std::chrono::seconds(1);
  Code code = Code::kUnavailable;
  uint64_t bytes = 64 << 20;
};

/// What a place has to do about the message in its hands.
struct FaultOutcome {
  Status status;
  bool corrupt = false, drop = false, repeat = false;
};

/// One per daemon, on its thread. REQUIRES, before it is destroyed: clear(), and that nothing waits any more.
class FaultPoints {
 public:
  static constexpr size_t kMaxFaults = 64;

  /// `keep_busy`: keeps the thread from doing anything else for so long, where a loop cannot, as in the simulator.
  using KeepBusy = std::function<asio::awaitable<void>(Duration)>;
  FaultPoints(asio::any_io_executor executor, Clock& clock, KeepBusy keep_busy = {})
      : executor_(executor), clock_(clock), keep_busy_(std::move(keep_busy)), changed_(executor, clock) {}
  ~FaultPoints();

  /// Where in the code a fault did something: what whoever looks for it has to name.
  struct Met {
    std::source_location where;
    /// The region of code that ran, or that waits for what was lost; empty: none has a name.
    std::string_view region;
  };

  /// False: pass() would do nothing.
  bool armed() const { return !faults_.empty(); }
  asio::awaitable<FaultOutcome> pass(FaultPoint point, std::string_view detail = {},
                                     std::source_location where = std::source_location::current());

  /// What is done for others who wait. The region is theirs; empty: it may be one of several.
  struct Deed {
    FaultPoint point{};
    std::string_view name;
    std::string_view region = {};
  };
  /// True: a fault loses the deed, and the caller continues without it. It is carried out, posted, when the fault is
  /// removed, or after its delay; REQUIRES: until then what `carry_out` refers to lives. False: the caller does it.
  bool loses(const Deed& deed, const std::function<void()>& carry_out, std::source_location where);

  /// The number by which it is removed. kLimitExceeded: there are too many.
  Result<uint64_t> set(Fault fault);
  /// kNotFound. Whoever hangs in it continues.
  Status remove(uint64_t number);
  void clear();

  struct Listed {
    uint64_t number = 0;
    Fault fault;
    uint64_t passed = 0;            ///< times that the place was reached
    uint64_t happened = 0;          ///< times that the fault did something
    std::optional<Met> first = {};  ///< the first of these times
  };
  std::vector<Listed> list() const;
  static constexpr size_t kMaxMethods = 256;
  /// How often each place whose detail is a method was passed, by method; at most kMaxMethods of them.
  const std::map<std::pair<FaultPoint, std::string>, uint64_t, std::less<>>& methods() const {
    return methods_;
  }
  /// How often each place was passed while any fault was set: what may be drawn.
  const std::array<uint64_t, static_cast<size_t>(FaultPoint::kCount)>& passes() const { return passes_; }

 private:
  /// A deed that was lost.
  struct Lost {
    uint64_t fault = 0;
    std::function<void()> deed;
    TimerId timer = TimerId::kNone;  ///< timer that ends the fault; kNone: it stays until it is removed
  };
  /// Counts this pass, and returns the faults that apply to it.
  std::vector<std::pair<uint64_t, Fault>> meet(FaultPoint point, std::string_view detail, const Met& met);
  void make_up(std::list<Lost>::iterator lost);
  asio::awaitable<FaultOutcome> happen(uint64_t number, Fault fault);
  bool is_set(uint64_t number) const;

  const asio::any_io_executor executor_;
  Clock& clock_;
  const KeepBusy keep_busy_;
  std::list<Listed> faults_;
  std::array<uint64_t, static_cast<size_t>(FaultPoint::kCount)> passes_{};
  std::map<std::pair<FaultPoint, std::string>, uint64_t, std::less<>> methods_;
  std::vector<std::unique_ptr<char[]>> leaked_;
  std::vector<int> leaked_sockets_;
  std::list<Lost> lost_;
  uint64_t next_ = 1;
  Event changed_;
};

}  // namespace kintsugi::runtime

namespace kintsugi::runtime {

/// Something is to go wrong in this process. Always false when fault points are not built in.
inline bool is_armed([[maybe_unused]] const FaultPoints* faults) {
#ifdef KINTSUGI_FAULT_POINTS
  return faults != nullptr && faults->armed();
#else
  return false;
#endif
}

/// Wakes, releases or answers somebody, unless a fault loses that.
template <class CarryOut>
void do_or_lose(FaultPoints* faults, const FaultPoints::Deed& deed, CarryOut carry_out,
                std::source_location where = std::source_location::current()) {
  if (is_armed(faults)) [[unlikely]] {
    if (faults->loses(deed, carry_out, where)) return;
  }
  carry_out();
}

}  // namespace kintsugi::runtime

/// In a coroutine that returns a Status or a Result, which an error of a fault ends:
/// KINTSUGI_FAULT_POINT(context.faults, runtime::FaultPoint::kOwnSum, detail). The detail is computed only when it is
/// needed.
#define KINTSUGI_FAULT_POINT(faults_, ...)                             \
  do {                                                                 \
    if (kintsugi::runtime::is_armed(faults_)) [[unlikely]]             \
      KINTSUGI_CO_TRY((co_await (faults_)->pass(__VA_ARGS__)).status); \
  } while (false)
