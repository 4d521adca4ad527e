"""The store: tables, column types, engines and migrations."""

# Every table is known wherever one of them is: migrations and tests read `Base.metadata` as a whole.
from bot.db import models as models
from bot.db import nightly as nightly
from bot.db import standing as standing
