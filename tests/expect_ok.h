/// Assertions on a Status that say, when they fail, what it is.
#pragma once

#include <gtest/gtest.h>

#include "common/base/status.h"

#define KINTSUGI_EXPECT_OK(expression) EXPECT_EQ(::kintsugi::Status{}, (expression))
#define KINTSUGI_ASSERT_OK(expression) ASSERT_EQ(::kintsugi::Status{}, (expression))
