/// Why an analysis of metrics gives no answer: it says what it lacks, and never guesses or accuses instead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <boost/system/result.hpp>

namespace kintsugi::metric_trace {

enum class Lack : uint8_t {
  kSamples,           ///< `have` of `need` samples in one life of the process
  kKnownValues,       ///< values are missing in the window
  kMovingLoad,        ///< the load is so constant that nothing can be set against it
  kMovingResiduals,   ///< nothing is left that could be correlated: everything is constant, or fits exactly
  kMetrics,           ///< the trace does not have the metrics
  kHealthyReference,  ///< `have` of `need` healthy runs with these metrics
  kHealthyPast,       ///< `have` of `need` samples of a healthy time before
  kPeers,             ///< `have` of `need` processes of the role
  kStateChanges,      ///< `have` of `need` changes of the states that the logs tell
};

struct NotEnough {
  Lack lack = Lack::kSamples;
  size_t have = 0, need = 0;

  /// "not enough data because there are 12 samples of 30".
  std::string to_string() const;

  bool operator==(const NotEnough&) const = default;
};

template <class T>
using Answer = boost::system::result<T, NotEnough>;

/// Called by Answer<T>::value() without a value: that is a bug of the caller.
[[noreturn]] void throw_exception_from_error(const NotEnough& lack, const boost::source_location& where);

}  // namespace kintsugi::metric_trace
