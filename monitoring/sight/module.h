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
///
/// Regions of one chain of control lie on one another. Where work forks, each branch begins with a Task; where it suspends
/// without calling anything annotated, a runtime::Wait says what it waits for.
#pragma once

#include <initializer_list>

#include "common/base/status.h"
#include "common/runtime/context.h"
#include "common/runtime/span.h"
#include "monitoring/sight/site.h"

namespace kintsugi::sight {

using runtime::Wait;
using runtime::WaitKind;

/// Not copied or moved. Costs two readings of the processor's counter, an open record and one write into a ring of the
/// recorder; no locks, no allocation.
class Module : public runtime::Span {
 public:
  using Inputs = std::initializer_list<double>;

  /// REQUIRES: `site` outlives the process's recorders (it is a constexpr at namespace scope) and names every input.
  Module(const Context& parent, const Site& site, Inputs inputs = {},
         std::source_location where = std::source_location::current())
      : Module(parent, site, inputs, Options{}, where) {}

  /// Records the value of the site's output number `index`.
  void output(size_t index, double value);

 protected:
  Module(const Context& parent, const Site& site, Inputs inputs, const Options& options,
         std::source_location where)
      : Span(parent, site, options, where) {
    if (recording()) set_inputs(inputs);
  }

 private:
  void set_inputs(Inputs inputs);
};

/// A module that begins a chain of control of its own: the first one of every coroutine that is spawned for a request.
class Task : public Module {
 public:
  Task(const Context& parent, const Site& site, Inputs inputs = {},
       std::source_location where = std::source_location::current())
      : Module(parent, site, inputs, {.task = true}, where) {}
};

/// A task for which no operation waits: an iteration of a background job.
class BackgroundTask : public Module {
 public:
  BackgroundTask(const Context& parent, const Site& site, Inputs inputs = {},
                 std::source_location where = std::source_location::current())
      : Module(parent, site, inputs, {.task = true, .background = true}, where) {}
};

/// A module in which nothing suspends: encoding, decoding, checksums. Its duration is what the processor took for it.
class Compute : public Module {
 public:
  Compute(const Context& parent, const Site& site, Inputs inputs = {},
          std::source_location where = std::source_location::current())
      : Module(parent, site, inputs, {.kind = runtime::RegionKind::kCompute}, where) {}
};

}  // namespace kintsugi::sight
