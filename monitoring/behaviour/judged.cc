#include "monitoring/behaviour/judged.h"

#include "common/base/statistics.h"

namespace kintsugi::behaviour {

double Judged::factor() const {
  std::vector<double> factors;
  for (const Odd& each : odd)
    if (each.predicted > 0) factors.push_back(each.actual / each.predicted);
  return median_of(factors);
}

}  // namespace kintsugi::behaviour
