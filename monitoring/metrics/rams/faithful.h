/// RAMS as the text has it (Tan 2008, sections 3.4.1 and 5): two tests of one window, and no memory between windows. It
/// is what detector.h is compared with. Pure.
#pragma once

#include <vector>

#include "monitoring/metrics/rams/channels.h"
#include "monitoring/metrics/rams/serial_correlation.h"

namespace kintsugi::rams {

struct FaithfulOptions {
  size_t window = 60;  ///< the text: "between 30 and 50", and more
  size_t stride = 5;
};

struct FaithfulWindow {
  size_t begin = 0, end = 0;  ///< rows of the window
  double slope = 0;
  DurbinWatson durbin_watson;
  BreuschGodfrey breusch_godfrey;
};

/// The window of these rows. REQUIRES: begin <= end <= app.size() == os.size().
Answer<FaithfulWindow> faithful_window(const Eigen::VectorXd& app, const Eigen::VectorXd& os, size_t begin,
                                       size_t end);

/// All windows of the channel that lie in one segment each and have an answer. REQUIRES: channel < channels.size().
std::vector<FaithfulWindow> faithful_windows(const Inputs& inputs, size_t channel,
                                             const FaithfulOptions& options = {});

}  // namespace kintsugi::rams
