"""Java, the jars, and the JVM of the driver."""
