/// The metrics registry of a daemon. Values are read when /metrics is, so that hot paths keep plain counters.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

namespace prometheus {
class Collectable;
}

namespace kintsugi::metrics {

using Labels = std::map<std::string, std::string>;

/// Not thread-safe: built, scraped and destroyed on the daemon's thread.
class Metrics {
 public:
  Metrics();
  ~Metrics();

  /// `read` must stay callable as long as the registry lives. Names follow Prometheus' rules
  /// (kintsugi_..., _total, _bytes).
  void gauge(const std::string& name, const std::string& help, Labels labels, std::function<double()> read);
  void counter(const std::string& name, const std::string& help, Labels labels, std::function<double()> read);
  /// A gauge that is always 1; what it tells are its labels, which `read` gives anew each time.
  void info(const std::string& name, const std::string& help, std::function<Labels()> read);
  void add(std::shared_ptr<prometheus::Collectable> collectable);

  /// Called before the values of each page are read: for what several of them take from one dear answer.
  void before_reading(std::function<void()> prepare);
  /// `append` adds two lines to a text, each of "region=executions" with blanks between: those that are open now, and
  /// those that have ended.
  void sample_regions(std::function<void(std::string& lines)> append);

  /// Adds the CPU seconds, resident memory and open file descriptors of this process.
  void add_process_metrics();

  /// Reads all values now. What is returned writes them in the Prometheus text exposition format 0.0.4, on whatever
  /// thread: that takes most of the time.
  std::function<std::string()> read() const;
  std::string text() const { return read()(); }

  /// For readers that ask many times a second: a line "c name{label="value"}" or "g ..." for each counter and gauge,
  /// and one line with their values in the same order, then those of the regions if somebody gives them. The order
  /// stays as long as nothing is added. Histograms are left out, and so are the metrics of the process, which /proc says
  /// more cheaply.
  std::string sample_names() const;
  std::string sample_values() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kintsugi::metrics
