/// The annotation that all diagnosis stands on (Sight; Mitra 2016, section 3.2, figure 3.3): an object that lives as
/// long as the region of code it names, in a context that survives coroutine suspension because it is passed along, not
/// kept in a thread.
///
/// ```cpp
/// constexpr sight::Site kReadBlocks{"chunkserver.read_blocks", {"bytes"}};
/// asio::awaitable<Status> ChunkReader::read(Context context, ...) {
///   sight::Module module{context, kReadBlocks, {double(bytes)}};
///   co_await file.read(module.context(), ...);   // nested modules and RPCs hang below this one
///   co_return module.finish(status);             // records the outcome; without it the module ends as ok
/// }
/// ```
#pragma once

#include <initializer_list>

#include "common/base/status.h"
#include "common/runtime/context.h"
#include "monitoring/sight/site.h"

namespace kintsugi::sight {

/// Not copied or moved. Costs two clock readings and one write into a ring of the recorder; no locks, no allocation.
class Module {
 public:
  /// REQUIRES: `site` outlives the process's recorders (it is a constexpr at namespace scope) and names every input.
  Module(const Context& parent, const Site& site, std::initializer_list<double> inputs = {});
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// The context for nested work: the same deadline, this module as the parent. A trace id is made if the
  /// parent had none.
  const Context& context() const { return context_; }

  /// Records the value of the site's output number `index`.
  void output(size_t index, double value);
  /// Records the outcome and hands the status through. The first call that is not ok stays.
  Status finish(Status status);
  void set_code(Code code);

 private:
  Context context_;
  const Site& site_;
  uint64_t parent_span_ = 0, parent_path_ = 0;
  TimePoint entered_;
  std::array<double, kMaxFeatures> inputs_{};
  std::array<double, kMaxFeatures> outputs_{};
  uint8_t input_count_ = 0;
  uint8_t output_mask_ = 0;
  Code code_ = Code::kOk;
};

}  // namespace kintsugi::sight
