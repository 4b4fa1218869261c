/// Judges whether what clients saw of one directory can be explained by a directory on which operations happen one after
/// another, each at some moment between its call and its return (linearizability: Herlihy and Wing 1990).
///
/// It follows all explanations that are still possible, as Lowe's just-in-time linearization (2017) does, and so objects
/// at the very return that leaves none.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "common/base/status.h"

namespace kintsugi::simulation {

class LinearDirectory {
 public:
  static constexpr size_t kNames = 4;  ///< files of a directory are called 0 to 3
  /// Operations whose outcome nobody knows multiply the explanations: a directory with this many is done with.
  static constexpr size_t kMaxUnknown = 4;

  enum class Kind : uint8_t {
    kPut,     ///< replaces what is there
    kCreate,  ///< kAlreadyExists when something is there
    kRemove,  ///< kNotFound when nothing is there
    kRename,  ///< name to other, which is replaced; kNotFound when nothing is at name
    kRead,    ///< the content at name, or kNotFound
    kList,    ///< the names that are there
  };
  struct Operation {
    Kind kind = Kind::kRead;
    uint32_t name = 0;
    uint32_t other = 0;    ///< of kRename
    uint32_t content = 0;  ///< of kPut and kCreate; not 0, and different for different bytes
  };
  using Handle = uint64_t;

  Handle begin(Operation operation);
  /// A change came to its end with kOk, kNotFound or kAlreadyExists. kCorrupt: nothing explains that.
  Status changed(Handle handle, Code outcome);
  /// A read or a list saw this: the content (0: no such file), or one bit for each name that is there.
  Status saw(Handle handle, uint32_t what);
  /// It failed in a way that does not tell whether it happened: it may still happen at any later time.
  void unknown(Handle handle);

  bool busy() const { return !open_.empty(); }
  /// Changes that may or may not have happened.
  size_t unknowns() const { return unknown_.size(); }
  /// What may be at `name` now: more than one content while operations are open or their outcomes unknown. 0: nothing.
  std::set<uint32_t> possible(uint32_t name) const;

 private:
  using Contents = std::array<uint32_t, kNames>;
  /// One explanation of what was seen so far.
  struct World {
    Contents contents{};
    std::map<Handle, Code> done;                ///< open changes that have happened already, and how
    std::map<Handle, std::set<uint32_t>> seen;  ///< what each open read could have seen since its call
    auto operator<=>(const World&) const = default;
  };

  static uint32_t look(const Operation& operation, const Contents& contents);
  static Code apply(const Operation& operation, Contents& contents);
  /// Adds every world that is reached when open changes happen now, in any order.
  void expand();
  template <class Keep>
  Status keep(Keep wanted, const Operation& operation, const char* what);
  void forget(Handle handle);

  std::set<World> worlds_{World{}};
  std::map<Handle, Operation> open_;
  std::map<Handle, Operation> unknown_;
  Handle next_ = 1;
};

}  // namespace kintsugi::simulation
