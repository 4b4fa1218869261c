#include "monitoring/metrics/rams/faithful.h"

#include "monitoring/metrics/trace/windows.h"

namespace kintsugi::rams {

Answer<FaithfulWindow> faithful_window(const Eigen::VectorXd& app, const Eigen::VectorXd& os, size_t begin,
                                       size_t end) {
  const auto first = static_cast<Eigen::Index>(begin), count = static_cast<Eigen::Index>(end - begin);
  const auto fit = fit_line(app.segment(first, count), os.segment(first, count), Line::kThroughOrigin);
  if (!fit) return fit.error();
  const auto d = durbin_watson(*fit);
  if (!d) return d.error();
  const auto lm = breusch_godfrey(*fit);
  if (!lm) return lm.error();
  return FaithfulWindow{begin, end, fit->slope, *d, *lm};
}

std::vector<FaithfulWindow> faithful_windows(const Inputs& inputs, size_t channel,
                                             const FaithfulOptions& options) {
  std::vector<FaithfulWindow> out;
  const Eigen::VectorXd os = inputs.os.col(static_cast<Eigen::Index>(channel));
  for (const size_t begin : metric_trace::window_begins(inputs.segments, options.window, options.stride)) {
    const auto window = faithful_window(inputs.app, os, begin, begin + options.window);
    if (window) out.push_back(*window);
  }
  return out;
}

}  // namespace kintsugi::rams
